"""The MongoDB mirror: the latest state by key, of what is recent and not sensitive.

`writer.write_batch` is called for each micro-batch of each lane, `rebuild.rebuild` by command, `upkeep` on a
schedule. All of them go through `assets.apply`, the one guarded write; nothing outside this package writes Mongo.
`document` and `changes` are pure; the other modules do I/O.
"""
