"""Tags and properties on their way down: what is known of the graph, how far each origin reaches, what to tell of it."""
