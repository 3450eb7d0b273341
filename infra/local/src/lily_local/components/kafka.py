"""Kafka: one KRaft node that is broker and controller, sized for a laptop."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lily_local import jars
from lily_local.components.model import Component, Context
from lily_local.components.probes import port_open
from lily_local.environment import HOST
from lily_local.files import write_atomic

_LOGGING = Path(__file__).parent / "kafka-log4j2.xml"

# The broker holds its pages in the system's cache, not in its heap.
_JVM = (
    "-Xms64m",
    "-Xmx288m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    # The first compiler only: half the CPU to start, and more messages per CPU-second for the first million.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)


def _properties(context: Context) -> str:
    port, controller = context.config.port("kafka"), context.config.port("kafka-controller")
    values = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": context.config.data("kafka"),
        "auto.create.topics.enable": "false",
        # One node: every internal topic has one replica and few partitions.
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 2,
        "group.initial.rebalance.delay.ms": 0,
        # Two cores: a few threads each, and a cleaner whose buffer fits the heap (128 MB by default).
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
        "num.recovery.threads.per.data.dir": 2,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "log.segment.bytes": 128 * 1024 * 1024,
        "log.index.size.max.bytes": 1024 * 1024,
        # What is past retention goes soon after; a look at some forty partitions costs nothing.
        "log.retention.check.interval.ms": 30_000,
        "message.max.bytes": 10 * 1024 * 1024,
        "replica.fetch.max.bytes": 10 * 1024 * 1024,
        "controlled.shutdown.enable": "false",
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _server_file(context: Context) -> Path:
    return context.config.run / "kafka.properties"


def _java(context: Context, main: str, *arguments: str, options: tuple[str, ...] = _JVM) -> list[str]:
    classpath = ":".join(str(path) for path in jars.ensure("kafka"))
    logging = f"-Dlog4j2.configurationFile={_LOGGING}"
    return [context.java.command, *options, logging, "-cp", classpath, main, *arguments]


def _prepare(context: Context) -> None:
    write_atomic(_server_file(context), _properties(context))
    data = context.config.data("kafka")
    data.mkdir(parents=True, exist_ok=True)
    if (data / "meta.properties").exists():
        return
    identity = ("-t", context.secrets.kafka_cluster_id, "-c", str(_server_file(context)))
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m")
    command = _java(context, "kafka.tools.StorageTool", "format", *identity, options=quick)
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)


def _ready(context: Context) -> bool:
    port = context.config.port("kafka")
    if not port_open(port):
        return False
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0, "socket.timeout.ms": 3000})
    return len(admin.list_topics(timeout=3).brokers) == 1


KAFKA = Component(
    name="kafka",
    command=lambda context: _java(context, "kafka.Kafka", str(_server_file(context))),
    prepare=_prepare,
    ready=_ready,
    ports=("kafka", "kafka-controller"),
    jar_sets=("kafka",),
    needs_java=True,
    stop_timeout=20,
)
