"""Incremental tables: `plan` resolves a declaration, `keys` finds the facts that changes touch, `joining` recomputes
them, `merging` says what of the table differs, `target` commits it. `refresh` is the order of it all.

Called by the upkeep of the lake job. DataFrames are made in `sources`, `joining` and `merging`, without I/O of their own.
"""
