"""What a tenant has connected to Lily: the catalogue of kinds, and its connectors with their secrets."""
