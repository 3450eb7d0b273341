"""Where rows come from: Kafka topics as streaming DataFrames."""
