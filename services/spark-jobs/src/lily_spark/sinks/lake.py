"""One micro-batch of events into bronze and silver, side by side, from one Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from lily_common.erasing.stoplist import Current
from lily_common.metrics import STREAM_CONFLICTS, STREAM_REPEATS
from lily_spark.config import SparkSettings
from lily_spark.erasing import gate
from lily_spark.sinks.dead_letters import DeadLetters
from lily_spark.sinks.delta import Appender
from lily_spark.sinks.identities import Identities, Verdict
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.tables import COMMITS, EVENTS, open_table
from lily_spark.transforms.arrow import bronze_rows, in_kafka_order, numbered, silver_rows, split

QUERY = "events"


class EventSink:
    """Writes batches of parsed events. A batch, or any message of it, may come again: nothing is then doubled."""

    def __init__(
        self,
        settings: SparkSettings,
        updates: UpdatesLayer,
        stop: Current = gate.current,
        appended: Callable[[], None] = lambda: None,
    ) -> None:
        """`appended` is called when silver has more."""
        self._stop = stop
        self._appended = appended
        self._settings = settings
        self._bronze = Appender(EVENTS, settings)
        self._silver = updates
        self._identities = Identities(settings.checkpoint("lake", "identities"), settings.dedupe_days)
        self._dead_letters = DeadLetters(settings.kafka_bootstrap, QUERY)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bronze")

    def settle(self) -> None:
        """Make the identity index agree with bronze; before the query starts, each time."""
        last = self._bronze.last_version(COMMITS) or 0
        if not self._identities.settle(self._bronze.last_version(self._identities.app_id), last):
            self._identities.rebuild(self._held(), last)

    def write(self, batch: DataFrame, _batch_id: int) -> None:
        """Return when bronze, silver and the dead letters of the batch are durable; raises when any is not.

        Silver takes every message that owns its identity, also when bronze has it already: a crash may have come
        between the two, and a register taken twice does no harm.
        """
        events, broken = split(batch.toArrow())
        stop = self._stop()
        events, broken = gate.pass_events(events, stop), gate.pass_letters(broken, stop)
        self._dead_letters.send(broken)
        events = in_kafka_order(events)
        verdict = self._identities.judge(events)
        bronze = self._pool.submit(self._append_new, bronze_rows(_rows(events, verdict.new)), verdict)
        registers = silver_rows(_rows(events, verdict.kept))
        self._silver.append(registers)
        if registers.num_rows:
            self._appended()
        bronze.result()
        STREAM_REPEATS.labels(QUERY).inc(verdict.repeats)
        STREAM_CONFLICTS.labels(QUERY).inc(verdict.conflicts)

    def _append_new(self, rows: pa.Table, verdict: Verdict) -> None:
        if rows.num_rows:
            sequence = self._identities.claim(verdict)
            transactions = {self._identities.app_id: sequence, COMMITS: sequence}
            self._bronze.commit(numbered(rows, sequence), transactions)

    def _held(self) -> Iterator[pa.Table]:
        """What bronze holds of the time in which a repeat counts, and of the days for which Kafka may bring it again."""
        oldest = datetime.now(UTC).date() - timedelta(days=self._settings.dedupe_days + 2)
        columns = ["tenant", "source", "id", "topic", "partition", "offset"]
        data = open_table(EVENTS, self._settings).to_pyarrow_dataset()
        for batch in data.to_batches(columns=columns, filter=pc.field("date") >= oldest):
            yield pa.Table.from_batches([batch])


def _rows(events: pa.Table, numbers: list[int]) -> pa.Table:
    """These rows; the type is said, as an empty list has none."""
    return events.take(pa.array(numbers, pa.int64()))
