"""API keys of a tenant."""
