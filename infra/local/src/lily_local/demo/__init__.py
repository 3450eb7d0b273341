"""`lily demo`: the main job on real input, each step checked.

`command` is the whole run in order; `stack` and `shop*` make what it runs on; `lineage`, `catalogue`, `incident`,
`notices` and `report` are its five steps; `receivers`, `sampling` and `checks` serve them. Talks to Lily through its
REST API alone.
"""
