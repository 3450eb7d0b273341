"""One micro-batch of events into bronze and silver, side by side, from one Spark job."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lily_spark.config import SparkSettings
from lily_spark.runtime.generation import Generation
from lily_spark.sinks.dead_letters import DeadLetters
from lily_spark.sinks.delta import Appender, Turn
from lily_spark.tables import ASSETS, EVENTS
from lily_spark.transforms.arrow import bronze_rows, silver_rows, split
from lily_spark.transforms.dedupe import IDENTITY

QUERY = "events"


class EventSink:
    """Writes batches of parsed, deduplicated events. A batch may be given again: nothing is then written twice.

    `appended` is called with the number of register rows of each batch that was written.
    """

    def __init__(
        self, settings: SparkSettings, generation: Generation, appended: Callable[[int], None]
    ) -> None:
        self._settings = settings
        self._generation = generation
        self._appended = appended
        self._bronze = Appender(EVENTS, settings)
        self._silver = Appender(ASSETS, settings)
        self._dead_letters = DeadLetters(settings.kafka_bootstrap, QUERY)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bronze")

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Return when bronze, silver and the dead letters of the batch are durable; raises when any is not."""
        turn = Turn(QUERY, self._generation.id, batch_id)
        rows = self._mark_known(batch) if self._generation.catching_up else batch
        events, broken = split(rows.toArrow())
        self._dead_letters.send(broken)
        registers = silver_rows(events)
        bronze = self._pool.submit(lambda: self._bronze.append(bronze_rows(events), turn))
        self._silver.append(registers, turn)
        bronze.result()
        self._appended(registers.num_rows)

    def _mark_known(self, batch: DataFrame) -> DataFrame:
        """`known` is true for identities that bronze holds already, of the time that Kafka can still hold.

        They are left out of bronze alone: silver may have missed them, and takes them twice without harm.
        """
        oldest = F.date_sub(F.current_date(), self._settings.dedupe_days + 2)
        bronze = batch.sparkSession.read.format("delta").load(EVENTS.uri(self._settings))
        known = bronze.where(F.col("date") >= oldest).select(*IDENTITY, F.lit(True).alias("known"))
        return batch.join(known, list(IDENTITY), "left")
