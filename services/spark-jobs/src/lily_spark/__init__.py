"""Lily's Spark applications: fan-out (Real-Time Mode) and lake (the owner of the Delta tables).

`sources` and `sinks` do I/O, `transforms` are pure (DataFrame in, DataFrame out), `jobs` wire them, `runtime` keeps
queries running, `mirror` writes MongoDB, `upkeep` looks after the tables. Imports go to `lily_common` only.
"""
