"""Enrichment rules: what tenants say an asset should bear by its looks."""
