"""Messages that cannot be processed, to `lily.dlq.changes`: as they were, with the reason in a header."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from lily_common.events import DLQ_CHANGES_TOPIC
from lily_common.kafka import producer_config
from lily_common.logs import get_logger
from lily_common.metrics import STREAM_DLQ

log = get_logger(__name__)


class DeadLetters:
    """Sends to the dead-letter topic; at least once, as a batch that is repeated sends them again."""

    def __init__(self, bootstrap: str, query: str) -> None:
        self._bootstrap = bootstrap
        self._query = query
        self._producer: Producer | None = None

    def send(self, broken: pa.Table) -> None:
        """Return when Kafka has acknowledged every row (problem, id: the place, key, raw); else raise KafkaException."""
        if not broken.num_rows:
            return
        producer = self._producer or Producer(
            producer_config(self._bootstrap, **{"message.max.bytes": 10_485_760})
        )
        self._producer = producer
        failures: list[str] = []
        for row in broken.select(["problem", "id", "key", "raw"]).to_pylist():
            producer.produce(
                DLQ_CHANGES_TOPIC,
                row["raw"],
                row["key"],
                headers=[("reason", row["problem"].encode()), ("position", row["id"].encode())],
                on_delivery=lambda error, _: failures.append(error.str()) if error is not None else None,
            )
        left = producer.flush(30)
        if left or failures:
            raise KafkaException(f"dead letters not acknowledged: {failures[:1] or left}")
        reasons = Counter(broken["problem"].to_pylist())
        for problem, count in reasons.items():
            STREAM_DLQ.labels(self._query, problem).inc(count)
        log.warning("messages to the dead-letter topic", query=self._query, reasons=dict(reasons))
