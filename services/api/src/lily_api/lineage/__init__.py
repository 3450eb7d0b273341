"""Lineage of an asset: a bounded breadth-first walk over the mirror's edges."""
