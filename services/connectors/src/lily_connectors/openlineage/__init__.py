"""OpenLineage to Lily: names there and back, facets read, one run event to its changes. Pure; no I/O.

`lily_api.openlineage` answers the HTTP requests and calls `normalise`; vendors use `names` so that a table has
one qualified name whoever tells of it.
"""
