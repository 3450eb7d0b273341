"""Enrichment: rules that say by an asset's own looks which tags it should bear."""
