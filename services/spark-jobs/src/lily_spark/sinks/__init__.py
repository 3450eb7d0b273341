"""Where rows go: Delta tables and Kafka topics. Each write says why doing it twice does no harm."""
