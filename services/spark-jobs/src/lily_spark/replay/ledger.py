"""Where replays stand, in the compacted topic `lily.replay-progress`: it outlives this process and its disk."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
from confluent_kafka import KafkaError, KafkaException, Producer

from lily_common.compacted import Compacted
from lily_common.events import REPLAY_PROGRESS_TOPIC
from lily_common.kafka import producer_config
from lily_spark.replay.request import Progress

#: A replay that is over is remembered this long, so that its command, sent twice, is not done twice.
_REMEMBERED = timedelta(days=7)
_SECONDS = 15.0


class ReplayLedger:
    """Reads all of the topic once, and writes to it. Raises KafkaException when Kafka does not take what is written."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer(producer_config(bootstrap))

    def load(self) -> dict[str, Progress]:
        """Every replay that is known, by id; those over for long are forgotten. Raises UnavailableError besides."""
        topic = Compacted(self._bootstrap, REPLAY_PROGRESS_TOPIC, "lily-lake-replays", _parse)
        try:
            found = topic.current()
        finally:
            topic.close()
        oldest = datetime.now(UTC) - _REMEMBERED
        for name in [name for name, held in found.items() if held.ended and held.ended < oldest]:
            self._put(name, None)
            del found[name]
        return found

    def save(self, progress: Progress) -> None:
        """Return when Kafka has it."""
        self._put(progress.request.id, orjson.dumps(progress.stored()))

    def _put(self, key: str, value: bytes | None) -> None:
        failures: list[KafkaError] = []
        self._producer.produce(
            REPLAY_PROGRESS_TOPIC,
            value,
            key.encode(),
            on_delivery=lambda error, _: failures.append(error) if error is not None else None,
        )
        if self._producer.flush(_SECONDS) or failures:
            raise KafkaException(failures[0] if failures else "a replay's progress was not acknowledged")


def _parse(value: bytes) -> Progress:
    try:
        return Progress.restored(orjson.loads(value))
    except (KeyError, TypeError) as wrong:
        raise ValueError(f"no replay's progress: {wrong!r}") from None
