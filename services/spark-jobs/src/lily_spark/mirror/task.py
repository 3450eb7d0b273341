"""What runs in Spark's Python workers. It imports little: every worker is a process, and pays for each import.

Rows come and go as plain tuples (the RDD's way), not as Arrow: Spark's Arrow path imports pandas and pyarrow, 90 MB
in each worker, to save microseconds on rows whose cost is Mongo's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lily_spark.mirror import rebuilding
from lily_spark.mirror.changes import Message
from lily_spark.mirror.chunk import Counts, chunks, mirror_chunk
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import open_mirror


def mirror_partition(
    rows: Iterable[tuple[str | None, str | None, str]], config: MirrorConfig
) -> Iterator[Counts]:
    """Mirror a partition's messages (key, value, position), in order; yields what became of them, once."""
    counts = Counts()
    messages = (Message(key, value or "", position) for key, value, position in rows)
    for chunk in chunks(messages):
        counts.add(mirror_chunk(open_mirror(config), chunk, config))
    if counts.events:
        yield counts


def rebuild_partition(
    rows: Iterable[tuple[Any, ...]], config: MirrorConfig, run: rebuilding.Rebuild
) -> Iterator[dict[str, int]]:
    """Rebuild the assets of a partition of silver rows, an asset's next to each other; yields counts by name."""
    silver = (rebuilding.SilverRow(*row) for row in rows)
    for changes in rebuilding.whole_assets(silver, config):
        yield rebuilding.write(changes, config, run)
