"""What the stores hold, read by their own clients and not through the API: Delta, MongoDB, Kafka.

Shapes are the ledger's: identities, and registers by asset.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Message, TopicPartition
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pymongo import MongoClient

from tests.support.ledger import Identity, Observed
from tests.support.rule import Held

EVENTS = "bronze/events"
RAW = "bronze/raw"
SILVER = "silver/assets"


class Lake:
    """The Delta tables, through delta-rs: a reader that shares nothing with the job that writes them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._uri = environment["LAKE_URI"].rstrip("/").replace("s3a://", "s3://", 1)
        self.options = {
            "AWS_ENDPOINT_URL": environment["S3_ENDPOINT"],
            "AWS_ACCESS_KEY_ID": environment["S3_ACCESS_KEY"],
            "AWS_SECRET_ACCESS_KEY": environment["S3_SECRET_KEY"],
            "AWS_REGION": environment.get("S3_REGION", "us-east-1"),
            "AWS_ALLOW_HTTP": "true",
        }

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(f"{self._uri}/{name}", storage_options=self.options)

    def rows(self, name: str, tenant: str, columns: list[str]) -> list[dict[str, Any]]:
        """The tenant's rows of the newest version; none while there is no such table."""
        try:
            table = self.table(name)
        except TableNotFoundError:
            return []
        found: pa.Table = table.to_pyarrow_table(columns=columns, filters=pc.field("tenant") == tenant)
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def bronze(self, tenant: str) -> dict[Identity, list[dict[str, Any]]]:
        """Identity -> payloads, one for each row."""
        rows: dict[Identity, list[dict[str, Any]]] = defaultdict(list)
        for row in self.rows(EVENTS, tenant, ["tenant", "source", "id", "event"]):
            rows[Identity(row["tenant"], row["source"], row["id"])].append(orjson.loads(row["event"])["data"])
        return rows

    def silver(self, tenant: str) -> dict[str, dict[str, Held]]:
        """Updates and primary together, the greatest version of each register (that of UTF-8, as tuples have it)."""
        state: dict[str, dict[str, Held]] = defaultdict(dict)
        columns = ["tenant", "subject", "register", "type", "version", "data"]
        for row in self.rows(SILVER, tenant, columns):
            held = state[row["subject"]].get(row["register"])
            if held is None or row["version"].encode() > held.version.encode():
                content = Held(row["type"], row["version"], orjson.loads(row["data"]))
                state[row["subject"]][row["register"]] = content
        return state


class Mirror:
    """The MongoDB mirror."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.client: MongoClient[dict[str, Any]] = MongoClient(environment["MONGO_URI"], tz_aware=True)
        self.database = self.client[environment.get("LILY_MONGO_DATABASE", "lily")]

    def registers(self, tenant: str) -> dict[str, dict[str, Held]]:
        """The registers of assets, incidents and edges alike, by asset, spelt as silver spells them."""
        state: dict[str, dict[str, Held]] = defaultdict(dict)
        for asset in self.database["assets"].find({"tenant": tenant}):
            for name, held in asset.get("registers", {}).items():
                key = _unescaped(name)
                if key != "touched":
                    state[asset["qualified_name"]][key] = Held(held["t"], held["v"], _decoded(held["d"]))
        for incident in self.database["incidents"].find({"tenant": tenant}):
            source = incident["version"].split(".", 2)[2].split(" ", 1)[0]
            state[incident["qualified_name"]][f"incident|{source}|{incident['incident_id']}"] = _held(
                incident
            )
        for edge in self.database["edges"].find({"tenant": tenant}):
            state[edge["downstream"]][f"edge|{edge['upstream']}|{edge.get('via') or ''}"] = _held(edge)
        return state

    def asset(self, tenant: str, qualified_name: str) -> dict[str, Any] | None:
        return self.database["assets"].find_one({"_id": f"{tenant}|{qualified_name}"})

    def close(self) -> None:
        self.client.close()


def _held(document: Mapping[str, Any]) -> Held:
    return Held(document["type"], document["version"], _decoded(document["data"]))


def _decoded(data: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = orjson.loads(data) if isinstance(data, str | bytes) else data
    return decoded


def _unescaped(name: str) -> str:
    for code, character in (("%2E", "."), ("%24", "$"), ("%00", "\x00"), ("%25", "%")):
        name = name.replace(code, character)
    return name


class Log:
    """Kafka, read by assignment and without a group, so that nothing is left behind."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "lily-tests",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": False,
                "fetch.wait.max.ms": 20,
            }
        )

    def ends(self, topic: str) -> dict[int, int]:
        """Partition -> the offset that the next message will have."""
        consumer = self._consumer()
        try:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            return {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
                for number in partitions
            }
        finally:
            consumer.close()

    def read(
        self, topic: str, start: Mapping[int, int] | None = None, timeout: float = 60
    ) -> Iterator[Message]:
        """Messages from `start` (or the beginning) up to where the topic ended when this was called.

        Raises TimeoutError when they do not all come within `timeout` seconds.
        """
        ends = self.ends(topic)
        begin = {number: (start or {}).get(number, 0) for number in ends}
        waiting = {number for number in ends if ends[number] > begin[number]}
        if not waiting:
            return
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, number, begin[number]) for number in waiting])
            deadline = time.monotonic() + timeout
            while waiting:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: partitions {waiting} did not reach their end")
                for message in consumer.consume(2000, timeout=0.5):
                    number, offset = message.partition(), message.offset()
                    if message.error() is not None or number is None or offset is None:
                        continue
                    if offset < ends[number]:
                        yield message
                    if offset + 1 >= ends[number]:
                        waiting.discard(number)
        finally:
            consumer.close()


def observe(lake: Lake, mirror: Mirror, tenants: Iterable[str]) -> Observed:
    """All that the stores hold of these tenants."""
    names = list(tenants)
    bronze: dict[Identity, list[Mapping[str, Any]]] = {}
    for tenant in names:
        bronze.update(lake.bronze(tenant))
    return Observed(
        bronze=bronze,
        silver={tenant: lake.silver(tenant) for tenant in names},
        mirror={tenant: mirror.registers(tenant) for tenant in names},
    )
