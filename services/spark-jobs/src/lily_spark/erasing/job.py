"""The lake's part of an erasure, in pieces on the upkeep thread; a process that dies in it begins again and ends the same.

The stop-list is the list of what is to be done: an entry that is open has still to be carried out. Order of work: a
look for the requests that brought what is erased; rewrite every table; the mirror; the dead letters; a grace, in which
readers of old files come to their end and batches that began before the entry was there are through; then all once
more, and when nothing new is found: old files, statistics, checkpoints, the oplog, the object store's own remains.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import orjson
from confluent_kafka import KafkaException, Producer
from pyspark.sql import SparkSession

from lily_common.erasing.stoplist import Entry, Matcher
from lily_common.events import COMMAND_RESULTS_TOPIC
from lily_common.gold.builtin import BUILTIN_FOLDER
from lily_common.kafka import producer_config
from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.erasing import documents, rules
from lily_spark.erasing.dead_letters import TOPICS, DeadLetterTopics
from lily_spark.erasing.delta import OWN_FOLDERS, ErasableTable
from lily_spark.erasing.gate import feed
from lily_spark.mirror.store import open_mirror
from lily_spark.mirror.writer import current_config
from lily_spark.storage.commits import live, put_if_absent
from lily_spark.storage.files import LakeFiles
from lily_spark.tables import EVENTS, RAW
from lily_spark.upkeep.task import Task

log = get_logger(__name__)
_LOOK_SECONDS = 2.0
_PIECE_SECONDS = 1.0
_RETRY_SECONDS = 10.0
_MOST_ROUNDS = 20
_LETTING_GO_SECONDS = 6.0
#: How often to see whether MongoDB has cut its oplog, which may take it two minutes.
_OPLOG_LOOKS = 120
Paths = Callable[[], Iterable[str]]


class Erasing:
    """Carries out open erasures, one after the other. Used by the upkeep thread."""

    def __init__(
        self,
        spark: SparkSession,
        settings: SparkSettings,
        paths: Paths,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        """`forget` makes the indexes anew that are made of the tables and may hold what was erased."""
        self._forget = forget
        self._spark = spark
        self._settings = settings
        self._paths = paths
        self._producer = Producer(producer_config(settings.kafka_bootstrap))
        self._files = LakeFiles(settings)
        self._letters = DeadLetterTopics(settings.kafka_bootstrap)
        self._done: set[str] = set()
        self._work: Iterator[None] | None = None
        self._at_hand: Entry | None = None
        self._not_before = 0.0

    def task(self) -> Task:
        return Task("erase", _LOOK_SECONDS, self.run, self._due)

    def _due(self) -> bool:
        return self._work is not None and time.monotonic() >= self._not_before

    def run(self) -> None:
        """A second of work. What fails is begun again after a while: every piece may be done twice."""
        if time.monotonic() < self._not_before:
            return
        if self._work is None:
            self._at_hand = self._next()
            if self._at_hand is None:
                return
            self._work = self._pieces(self._at_hand)
        assert self._at_hand is not None
        deadline = time.monotonic() + _PIECE_SECONDS
        try:
            for _ in self._work:
                if time.monotonic() > deadline or time.monotonic() < self._not_before:
                    return
        except Exception as failed:
            self._work = None
            self._not_before = time.monotonic() + _RETRY_SECONDS
            self._tell(self._at_hand, "running", {"error": f"{type(failed).__name__}: {str(failed)[:300]}"})
            raise
        self._done.add(self._at_hand.id)
        self._work = None

    def _next(self) -> Entry | None:
        waiting = [entry for entry in feed().entries() if entry.open and entry.id not in self._done]
        return min(waiting, key=lambda entry: entry.id, default=None)

    def _pieces(self, entry: Entry) -> Iterator[None]:
        started = datetime.now(UTC)
        matcher = Matcher(feed().key, entry.tenant, [entry])
        self._tell(entry, "running", {"started": started.isoformat()})
        # Requests go to the archive some seconds after their events: the look at the events must find those too.
        yield from self._wait(3 * self._settings.raw_trigger_ms / 1000)
        requests: set[str] = set()
        yield from self._requests(matcher, requests)
        rounds = 0
        while True:
            touched = 0
            tables = [
                self._table(entry, matcher, path, frozenset(requests)) for path in self._concerned(entry)
            ]
            for piece in self._round(entry, matcher, tables):
                touched += piece
                yield
            rounds += 1
            if (rounds > 1 and not touched) or rounds > _MOST_ROUNDS:
                break
            if rounds == 1 or touched:
                yield from self._wait(self._settings.erase_grace_seconds)
        self._forget()
        for table in tables:
            yield from self._swept(entry, matcher, table)
        # The object store lets go of removed objects a moment later; only then can its volumes be written anew.
        yield from self._wait(_LETTING_GO_SECONDS)
        oplog: dict[str, Any] = {}
        yield from self._oplog(oplog)
        detail = {"oplog": oplog, **self._last_remains(started)}
        self._tell(entry, "succeeded", detail | {"started": started.isoformat()})
        yield

    def _concerned(self, entry: Entry) -> list[str]:
        """Tables that may hold rows of the tenant: requests first, while the events that lead to them are there."""
        paths = [path for path in dict.fromkeys(self._paths()) if _concerns(path, entry.tenant)]
        return sorted(paths, key=lambda path: (path != RAW.name, path))

    def _table(self, entry: Entry, matcher: Matcher, path: str, requests: frozenset[str]) -> ErasableTable:
        rule = rules.rule_of(path, matcher, requests)
        return ErasableTable(
            self._settings,
            self._files,
            path,
            entry.id,
            entry.tenant,
            rule,
            put_if_absent(self._spark, self._settings),
        )

    def _round(self, entry: Entry, matcher: Matcher, tables: list[ErasableTable]) -> Iterator[int]:
        for table in tables:
            for done in table.rewrite():
                if done is not None:
                    detail = {"store": f"lake {table.path}", "rows": done.rows, "files": done.files}
                    self._tell(entry, "running", {"part": f"{table.path}@{done.version}"} | detail)
                yield done.rows if done is not None else 0
        config = current_config()
        for collection, count in documents.erase(open_mirror(config), matcher, config):
            if count:
                part = f"{collection}@{time.time_ns()}"
                self._tell(entry, "running", {"part": part, "store": f"mirror {collection}", "rows": count})
            yield count
        for topic in TOPICS:
            count = self._letters.erase(topic, matcher)
            if count:
                part = f"{topic}@{time.time_ns()}"
                self._tell(entry, "running", {"part": part, "store": f"kafka {topic}", "rows": count})
            yield count

    def _swept(self, entry: Entry, matcher: Matcher, table: ErasableTable) -> Iterator[None]:
        # A process that died after a commit may not have told of it.
        for done in table.commits():
            detail = {"store": f"lake {table.path}", "rows": done.rows, "files": done.files}
            self._tell(entry, "running", {"part": f"{table.path}@{done.version}"} | detail)
            yield
        for _ in table.sweep(matcher):
            yield

    def _requests(self, matcher: Matcher, requests: set[str]) -> Iterator[None]:
        """Collect the ids of requests whose events are about what is erased."""
        table = self._table(
            Entry(id="", tenant=matcher.tenant, kind="asset", digest=""), matcher, EVENTS.name, frozenset()
        )
        opened = table.open()
        for add in live(opened) if opened is not None else []:
            if add["partitionValues"]["tenant"] != matcher.tenant:
                continue
            parquet = self._files.parquet(f"{EVENTS.name}/{unquote(add['path'])}")
            for batch in parquet.iter_batches(2_000, columns=["event"]):
                for text in batch.column("event").to_pylist():
                    event = orjson.loads(text)
                    if "requestid" in event and rules.about(event, matcher):
                        requests.add(event["requestid"])
            yield

    def _wait(self, seconds: float) -> Iterator[None]:
        self._not_before = time.monotonic() + seconds
        yield

    def _oplog(self, told: dict[str, Any]) -> Iterator[None]:
        """Outrun the oplog where it is small enough; a larger one is left to time, and `told` says so."""
        oplog = documents.Oplog(open_mirror(current_config()), datetime.now(UTC))
        told |= {"bytes": oplog.bytes, "outrun": False}
        if not 0 < oplog.bytes <= self._settings.erase_oplog_bytes:
            return
        yield from oplog.fill()
        for _ in range(_OPLOG_LOOKS):
            told["outrun"] = oplog.outrun()
            if told["outrun"]:
                return
            oplog.note(1 << 20)
            yield from self._wait(_LOOK_SECONDS)

    def _last_remains(self, started: datetime) -> dict[str, Any]:
        """The object store's volumes, where the setting says how."""
        told: dict[str, Any] = {}
        if url := self._settings.erase_volumes_url:
            urllib.request.urlopen(url, timeout=600).close()  # noqa: S310  (an operator's setting)
            told["volumes"] = "vacuumed"
        return told | {"seconds": round((datetime.now(UTC) - started).total_seconds(), 1)}

    def _tell(self, entry: Entry, status: str, detail: dict[str, Any]) -> None:
        value = {
            "id": entry.id,
            "tenant": entry.tenant,
            "command": "erase",
            "status": status,
            "detail": detail,
        }
        self._producer.produce(COMMAND_RESULTS_TOPIC, orjson.dumps(value), entry.tenant.encode())
        if self._producer.flush(15):
            raise KafkaException(f"the progress of {entry.id} was not acknowledged")


def _concerns(path: str, tenant: str) -> bool:
    """Whether a table may hold rows of the tenant: those in a tenant's own folder are no other's."""
    parts = path.split("/")
    return parts[0] not in OWN_FOLDERS or parts[1] in (tenant, BUILTIN_FOLDER)
