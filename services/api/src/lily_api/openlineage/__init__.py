"""OpenLineage's HTTP API, for clients that are used unmodified: `/api/v1/lineage` and `/api/v1/lineage/batch`."""
