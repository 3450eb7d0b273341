"""Peer (a): a bare confluent-kafka producer loop in one process, `acks=all`, nothing checked, nothing else done.

Produces the given messages over and over until their count is reached; prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers.producer_loop")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--messages", required=True, type=Path, help="One message a line")
    parser.add_argument("--count", required=True, type=int)
    arguments = parser.parse_args()
    values = arguments.messages.read_bytes().splitlines()
    keys = [str(number).encode() for number in range(len(values))]
    acked = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acked
        acked += error is None

    producer = Producer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
        }
    )
    producer.list_topics(arguments.topic, timeout=10)
    begin, cpu = time.perf_counter(), time.process_time()
    for number in range(arguments.count):
        place = number % len(values)
        while True:
            try:
                producer.produce(arguments.topic, values[place], keys[place], on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(60)
    seconds = time.perf_counter() - begin
    print(json.dumps({"acked": acked, "seconds": seconds, "cpu_seconds": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
