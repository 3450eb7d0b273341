"""One micro-batch of change data into its tables: taken apart once, then each table by itself, side by side.

A batch may come again: rows carry their place in the source's log as version, and of one version there is one content.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, Row, SparkSession

from lily_common.logs import get_logger
from lily_spark.cdc.gaps import Gap, gaps
from lily_spark.cdc.mirror import CdcMirror
from lily_spark.cdc.refusals import Alert, Letter, Refusals
from lily_spark.cdc.registry import CdcTables
from lily_spark.cdc.rows import PLACE, PROBLEM, envelopes
from lily_spark.cdc.sources import Source, Sources, asset, mirrored
from lily_spark.cdc.table_batch import Mirror, Outcome, TableBatch
from lily_spark.cdc.topics import Capture
from lily_spark.config import SparkSettings
from lily_spark.erasing import gate
from lily_spark.tables import EVENTS, open_table
from lily_spark.transforms.frames import spark_frame

log = get_logger(__name__)
_PARALLEL = 3
#: A table that fails so often on the same batch, while the lake can be reached, is refused: others must go on.
_PATIENCE = 3


@dataclass
class _Batch:
    """What is known of the batch at hand."""

    messages: DataFrame
    parts: DataFrame
    sources: Mapping[str, Source]
    outcomes: list[Outcome] = field(default_factory=list)


class CdcSink:
    """Writes batches of Kafka rows (key, value, topic, partition, offset, timestamp)."""

    def __init__(self, spark: SparkSession, settings: SparkSettings, tables: CdcTables) -> None:
        self._spark = spark
        self._settings = settings
        self._tables = tables
        self._sources = Sources(settings.kafka_bootstrap)
        self._refusals = Refusals(settings)
        self._mirror = CdcMirror(settings)
        self._failures: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="cdc")

    def settle(self, checkpoint: Path) -> None:
        """Say what Kafka no longer has of what was not read; before the query starts, each time."""
        found = gaps(self._settings.kafka_bootstrap, checkpoint)
        if found:
            sources = self._sources.current()
            self._refusals.lost(_missing(sources, gap) for gap in found)

    def write(self, batch: DataFrame, _batch_id: int) -> None:
        """Return when every row is in its table (and mirror) or among the dead letters; raises when any is not."""
        batch = gate.pass_changes(batch, gate.current())
        parts = envelopes(batch).persist()
        try:
            shapes = _shapes(parts)
            if not shapes:
                return
            held = _Batch(batch, parts, self._sources.current())
            run = inheritable_thread_target(batch.sparkSession)(self._one)
            topics = sorted(shapes)
            futures = [self._pool.submit(run, held, topic, shapes[topic]) for topic in topics]
            errors = []
            for future in futures:
                try:
                    held.outcomes.append(future.result())
                except Exception as failed:  # the other tables' rows are written all the same
                    errors.append(failed)
            self._report(held)
            if errors:
                raise errors[0]
        finally:
            parts.unpersist()

    def _one(self, held: _Batch, topic: str, shapes: list[Row]) -> Outcome:
        """One table's part. A failure that is not the table's own is raised, and the batch comes again."""
        capture = Capture.of_topic(topic)
        work = TableBatch(self._spark, self._tables, capture, held.parts, shapes)
        try:
            outcome = work.write(self._mirrors(held, capture))
        except Exception as failed:
            self._failures[topic] = self._failures.get(topic, 0) + 1
            if self._failures[topic] < _PATIENCE or not self._reachable():
                raise
            log.exception("a table of change data fails again and again", topic=topic)
            outcome = work.refuse_all(f"cannot be written: {type(failed).__name__}")
        self._failures.pop(topic, None)
        return outcome

    def _mirrors(self, held: _Batch, capture: Capture) -> Mirror:
        chosen = mirrored(held.sources, capture)
        if chosen is None:
            return lambda _rows, _key: 0
        return partial(self._mirror.write, capture, chosen)

    def _reachable(self) -> bool:
        try:
            open_table(EVENTS, self._settings)
        except Exception:  # whatever it is, it is not one table's own fault
            return False
        return True

    def _report(self, held: _Batch) -> None:
        """Dead letters, then incidents: those of tables with refused rows, and the end of those that are whole again."""
        refused = [outcome for outcome in held.outcomes if outcome.refused.num_rows]
        if refused:
            places = pa.concat_tables([outcome.refused for outcome in refused])
            self._refusals.bury(self._letters(held.messages, places))
        self._refusals.open(_alert(held, outcome) for outcome in refused)
        self._refusals.resolve(
            _alert(held, outcome)
            for outcome in held.outcomes
            if outcome.rows and not outcome.refused.num_rows
        )

    def _letters(self, messages: DataFrame, places: pa.Table) -> list[Letter]:
        """The messages at these places, as they came: read from Kafka once more, as they are few."""
        wanted = spark_frame(messages.sparkSession, places)
        rows = messages.join(wanted, list(PLACE)).select(*PLACE, "key", "value", PROBLEM).toArrow()
        return [
            Letter(row["topic"], row["partition"], row["offset"], row["key"], row["value"], row[PROBLEM])
            for row in rows.sort_by([(name, "ascending") for name in PLACE]).to_pylist()
        ]


def _shapes(parts: DataFrame) -> dict[str, list[Row]]:
    """Topic -> what pairs of schemas its messages have, in the order of their first offset."""
    found = (
        parts.groupBy("topic", "shape", PROBLEM)
        .agg({"ks": "first", "vs": "first", "offset": "min"})
        .withColumnsRenamed({"first(ks)": "ks", "first(vs)": "vs", "min(offset)": "first"})
        .collect()
    )
    shapes: dict[str, list[Row]] = {}
    for row in sorted(found, key=lambda row: row["first"]):
        shapes.setdefault(row["topic"], []).append(row)
    return shapes


def _missing(sources: Mapping[str, Source], gap: Gap) -> Alert:
    capture = Capture.of_topic(gap.topic)
    return Alert(capture, asset(sources, capture), gap.reason, f"{gap.topic}/{gap.partition}/{gap.read}")


def _alert(held: _Batch, outcome: Outcome) -> Alert:
    if outcome.refused.num_rows:
        first = outcome.refused.slice(0, 1).to_pylist()[0]
        place = f"{first['topic']}/{first['partition']}/{first['offset']}"
        return Alert(outcome.capture, asset(held.sources, outcome.capture), first[PROBLEM], place)
    place = f"{outcome.capture.topic}/{outcome.last}"
    return Alert(outcome.capture, asset(held.sources, outcome.capture), "rows are taken again", place)
