"""What keeps an application alive: waiting for servers, supervising queries, readiness, metrics, the writer lock."""
