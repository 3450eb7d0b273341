"""The generation of a checkpoint: which life of a query this is, and what a new life must not do twice.

A checkpoint may be lost while its table is not. The new one reads Kafka from its start again and has no memory of
identities; both heal themselves, as Kafka keeps the changes for as long as identities are remembered. Until the
query has passed the place where Kafka ended when the generation began (`catch_up`), its appends leave out what the
table already holds. Batch ids begin at 0 again too, hence the generation is part of each append's transaction id.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lily_common.logs import get_logger

log = get_logger(__name__)
#: topic -> partition -> offset
Offsets = dict[str, dict[str, int]]


@dataclass
class Generation:
    """One life of a checkpoint; kept in a file beside it. `catch_up` is None when there is nothing to leave out."""

    id: str
    catch_up: Offsets | None
    _path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def catching_up(self) -> bool:
        return self.catch_up is not None

    def passed(self, read: Offsets) -> None:
        """The query has read up to `read` (the end offsets of a batch that is done)."""
        with self._lock:
            if self.catch_up is None or not _covers(read, self.catch_up):
                return
            self.catch_up = None
            self.save()
        log.info("caught up with what the table held", generation=self.id)

    def save(self) -> None:
        """Write the note so that it is either the old one or the new one, whole."""
        fresh = self._path.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump({"id": self.id, "catch_up": self.catch_up}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


def load(folder: Path, checkpoint: Path, begin: Callable[[], Offsets | None]) -> Generation:
    """The generation of `checkpoint`, noted in `folder`; a new one when there is no checkpoint or no note.

    `begin` says, for a new generation, where Kafka ends now, or None when the table is empty.
    """
    path = folder / f"{checkpoint.name}.generation.json"
    if path.exists() and (checkpoint / "offsets").is_dir():
        held = json.loads(path.read_text())
        return Generation(held["id"], held["catch_up"], path)
    folder.mkdir(parents=True, exist_ok=True)
    generation = Generation(uuid.uuid4().hex, begin(), path)
    generation.save()
    log.info(
        "new generation",
        checkpoint=checkpoint.name,
        generation=generation.id,
        catch_up=generation.catching_up,
    )
    return generation


def _covers(read: Offsets, target: Offsets) -> bool:
    return all(
        read.get(topic, {}).get(partition, 0) >= offset
        for topic, partitions in target.items()
        for partition, offset in partitions.items()
    )
