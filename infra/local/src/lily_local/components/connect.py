"""Kafka Connect: one distributed worker with the Debezium plugins, on loopback only. Started when asked for."""

from __future__ import annotations

from pathlib import Path

from lily_local import jars
from lily_local.components.model import Component, Context
from lily_local.components.probes import http_ok
from lily_local.environment import HOST
from lily_local.files import write_atomic

_LOGGING = Path(__file__).parent / "connect-log4j2.xml"
GROUP = "lily-connect"
#: Jar sets, each a plugin.
_PLUGINS = ("debezium-postgres", "debezium-mongodb")

_JVM = (
    "-Xms64m",
    "-Xmx384m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    # The first compiler only: half the CPU to start.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)


def _properties(context: Context) -> str:
    json = "org.apache.kafka.connect.json.JsonConverter"
    values = {
        "bootstrap.servers": f"{HOST}:{context.config.port('kafka')}",
        "group.id": GROUP,
        "listeners": f"http://{HOST}:{context.config.port('connect')}",
        "plugin.path": _plugins(context),
        "plugin.discovery": "service_load",
        "key.converter": json,
        "value.converter": json,
        "config.storage.topic": "lily.connect.configs",
        "offset.storage.topic": "lily.connect.offsets",
        "status.storage.topic": "lily.connect.status",
        "config.storage.replication.factor": 1,
        "offset.storage.replication.factor": 1,
        "status.storage.replication.factor": 1,
        "offset.storage.partitions": 4,
        "status.storage.partitions": 2,
        "topic.creation.enable": "true",
        "offset.flush.interval.ms": 5000,
        # One worker: nobody is waited for when it comes back.
        "scheduled.rebalance.max.delay.ms": 0,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 2000,
        "producer.compression.type": "lz4",
        "producer.linger.ms": 5,
        "producer.max.request.size": 10_000_000,
        "producer.buffer.memory": 16 * 1024 * 1024,
        # A connector's own configuration may not change the worker's clients.
        "connector.client.config.override.policy": "None",
        # Passwords stay out of the topic of configurations: it holds the names of files in this folder.
        "config.providers": "lily",
        "config.providers.lily.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        "config.providers.lily.param.allowed.paths": context.config.connect_secrets,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _plugins(context: Context) -> Path:
    return context.config.run / "connect-plugins"


def _worker_file(context: Context) -> Path:
    return context.config.run / "connect.properties"


def _prepare(context: Context) -> None:
    secrets = context.config.connect_secrets
    secrets.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(_worker_file(context), _properties(context))
    # A plugin is a folder of jars below the plugin path, with a class loader of its own.
    for name in _PLUGINS:
        _link(_plugins(context) / name, jars.ensure(name)[0].parent)


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target, target_is_directory=True)


def _command(context: Context) -> list[str]:
    classpath = ":".join(str(path) for path in jars.ensure("connect"))
    logging = f"-Dlog4j2.configurationFile={_LOGGING}"
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return [context.java.command, *_JVM, logging, "-cp", classpath, main, str(_worker_file(context))]


CONNECT = Component(
    name="connect",
    command=_command,
    prepare=_prepare,
    # Answers 200 once the worker is a member of its group and has read its topics.
    ready=lambda context: http_ok(context.config.port("connect"), "/health"),
    needs=("kafka",),
    ports=("connect",),
    jar_sets=("connect", *_PLUGINS),
    needs_java=True,
    optional=True,
    stop_timeout=20,
)
