"""Enrichment: tags by what an asset looks like, attached or suggested, and taken back when it no longer does."""
