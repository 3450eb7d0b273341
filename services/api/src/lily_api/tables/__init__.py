"""Incremental tables: their declarations, on their way to the lake job, and what it says of their refreshes."""
