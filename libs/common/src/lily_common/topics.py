"""Topics are files: `contracts/topics/*.yaml` says owner, key, partitions and retention, and creates the topic.

`python -m lily_common.topics apply` brings a broker in line (creates topics, adds partitions, sets configs).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from pydantic import BaseModel, ConfigDict, Field

from lily_common.config import settings


class Topic(BaseModel):
    """One topic's contract. `config` holds Kafka topic settings, e.g. `retention.ms`."""

    model_config = ConfigDict(extra="forbid")

    name: str
    description: str
    owner: str
    producers: list[str]
    consumers: list[str]
    key: str
    value: str
    compatibility: Literal["backward", "none"] = "backward"
    partitions: int = Field(ge=1)
    config: dict[str, str] = Field(default_factory=dict)


def _folder() -> Path:
    """Installed packages carry the contracts as data; a checkout has them at its root."""
    if override := os.environ.get("LILY_CONTRACTS_DIR"):
        return Path(override)
    packaged = Path(str(files("lily_common"))) / "contracts"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[4] / "contracts"


def load() -> list[Topic]:
    """Every topic contract, by name. Raises FileNotFoundError when there are none."""
    paths = sorted((_folder() / "topics").glob("*.yaml"))
    if not paths:
        raise FileNotFoundError(f"no topic contracts in {_folder() / 'topics'}")
    return [Topic.model_validate(yaml.safe_load(path.read_text())) for path in paths]


def new_topic(topic: Topic, replication: int) -> NewTopic:
    in_sync = "2" if replication > 2 else "1"
    config = {"min.insync.replicas": in_sync, **topic.config}
    return NewTopic(
        topic.name, num_partitions=topic.partitions, replication_factor=replication, config=config
    )


def apply(bootstrap: str, *, replication: int = 1, wait_seconds: float = 60) -> dict[str, str]:
    """Bring the broker in line with the contracts; returns topic -> created | updated | unchanged.

    Partitions are only ever added. Raises KafkaException when the broker does not answer within `wait_seconds`.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    existing = _existing(admin, wait_seconds)
    outcome: dict[str, str] = {}
    for topic in load():
        held = existing.get(topic.name)
        if held is None:
            admin.create_topics([new_topic(topic, replication)])[topic.name].result(30)
            outcome[topic.name] = "created"
        else:
            outcome[topic.name] = "updated" if _update(admin, topic, held) else "unchanged"
    return outcome


def _existing(admin: AdminClient, wait_seconds: float) -> dict[str, int]:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            listed: dict[str, Any] = dict(admin.list_topics(timeout=5).topics)
            return {name: len(meta.partitions) for name, meta in listed.items()}
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def _update(admin: AdminClient, topic: Topic, partitions: int) -> bool:
    changed = False
    if partitions < topic.partitions:
        admin.create_partitions([NewPartitions(topic.name, topic.partitions)])[topic.name].result(30)
        changed = True
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    current = admin.describe_configs([resource])[resource].result(30)
    wanted = {k: v for k, v in topic.config.items() if k not in current or current[k].value != v}
    if wanted:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in wanted.items()
        ]
        change = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
        admin.incremental_alter_configs([change])[change].result(30)
        changed = True
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lily_common.topics", description="Apply topic contracts")
    parser.add_argument("action", choices=["apply", "list"])
    parser.add_argument("--bootstrap", default=settings().kafka_bootstrap)
    parser.add_argument("--replication", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.action == "list":
        for topic in load():
            sys.stdout.write(f"{topic.name}\t{topic.partitions}\t{topic.key}\t{topic.description}\n")
        return 0
    for name, outcome in apply(arguments.bootstrap, replication=arguments.replication).items():
        sys.stdout.write(f"{name}\t{outcome}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
