"""Reading `lily.notices`: batches as they come, without waiting for more; offsets are committed after the work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lily_common.kafka import consumer_config
from lily_common.logs import get_logger

log = get_logger(__name__)

#: Most messages of one batch: bounds the transaction's time and what a crash repeats.
BATCH = 500
POLL_SECONDS = 0.5


class NoticeReader:
    """A consumer in its own thread. `joined` says that the group has given it its partitions (maybe none)."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._consumer = Consumer(
            consumer_config(
                bootstrap,
                group,
                **{
                    # Offsets are stored after the batch's transaction; librdkafka commits what is stored, each second
                    # and when partitions are taken away.
                    "enable.auto.commit": True,
                    "enable.auto.offset.store": False,
                    "auto.commit.interval.ms": 1000,
                    "topic.metadata.refresh.interval.ms": 10_000,
                    "session.timeout.ms": 10_000,
                    "partition.assignment.strategy": "cooperative-sticky",
                    "queued.max.messages.kbytes": 16_384,
                },
            )
        )
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notices")
        self.topic = topic
        self.joined = False

    def start(self) -> None:
        self._consumer.subscribe([self.topic], on_assign=self._assigned, on_lost=self._lost)

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.joined = True
        log.info("partitions assigned", partitions=[p.partition for p in partitions])

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        log.warning("partitions lost", partitions=[p.partition for p in partitions])

    async def read(self) -> list[Message]:
        """What is there, at most `BATCH` messages; empty when nothing came for a while."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read)

    def _read(self) -> list[Message]:
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return []
        return [m for m in (first, *self._consumer.consume(BATCH - 1, 0)) if self._usable(m)]

    def _usable(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() != KafkaError._PARTITION_EOF:
            log.warning("consumer", error=error.str())
        return False

    def done(self, messages: Sequence[Message]) -> None:
        """These messages are dealt with: their offsets may be committed."""
        ends: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition(), message.offset()
            if partition is not None and offset is not None:
                ends[partition] = max(ends.get(partition, 0), offset + 1)
        offsets = [TopicPartition(self.topic, partition, end) for partition, end in ends.items()]
        try:
            self._consumer.store_offsets(offsets=offsets)
        except (
            KafkaException
        ) as gone:  # taken away meanwhile: the new owner repeats the batch, and finds it seen
            log.info("offsets not stored", error=str(gone))

    async def probe(self) -> int:
        """Messages of the assigned partitions not dealt with yet. Raises KafkaException when no broker answers."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._probe)

    def _probe(self) -> int:
        self._consumer.list_topics(self.topic, timeout=2.0)
        behind = 0
        for position in self._consumer.position(self._consumer.assignment()):
            _, high = self._consumer.get_watermark_offsets(position, cached=True)
            if position.offset >= 0 and high > 0:
                behind += max(high - position.offset, 0)
        return behind

    async def close(self) -> None:
        """Commit what is stored and leave the group."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._consumer.close)
        self._thread.shutdown(wait=False)
