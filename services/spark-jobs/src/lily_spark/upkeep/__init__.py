"""What the lake job does beside its streams: compaction, the mirror's upkeep, commands. One operation at a time.

Appends and the mirror's queries never wait for it.
"""
