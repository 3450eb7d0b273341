"""Rules by which tags and properties travel down lineage and hierarchy."""
