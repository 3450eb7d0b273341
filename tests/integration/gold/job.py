"""A lake job with incremental tables, as the API and readers see it: topics in and out, Delta tables on S3."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
from confluent_kafka import Consumer, Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from tests.integration.spark.captured import newest
from tests.support.poll import until

from lily_common.events import COMMAND_RESULTS_TOPIC, COMMANDS_TOPIC, TABLE_REFRESHES_TOPIC, TABLES_TOPIC
from lily_common.gold.spec import read
from lily_common.kafka import consumer_config, producer_config
from lily_spark.cdc.tables import row_table
from lily_spark.config import SparkSettings
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.tables import open_table, storage_options

Row = dict[str, Any]


class Source:
    """A captured table on S3, written without Spark as the lake job's own query does. `rows` is what is there."""

    _positions = itertools.count(1)

    def __init__(
        self, settings: SparkSettings, tenant: str, name: str, columns: Mapping[str, pa.DataType]
    ) -> None:
        fields = [pa.field(column, kind) for column, kind in columns.items()]
        layered = row_table(f"cdc/{tenant}/shop/public.{name}", ["id"], fields, buckets=2)
        open_table(layered.table, settings)
        self._updates = UpdatesLayer(settings, layered)
        self.rows: dict[int, Row] = {}

    def write(self, rows: Iterable[Row] = (), deleted: Sequence[int] = ()) -> None:
        now = datetime.now(UTC)
        given = [*((row, False) for row in rows), *(({"id": number}, True) for number in deleted)]
        made = [
            {
                **row,
                "__version": f"{next(self._positions):020d}.{0:020d}",
                "__op": "d" if gone else "u",
                "__deleted": gone,
                "__time": now,
            }
            for row, gone in given
        ]
        schema = self._updates.layered.table.schema
        columns = {field.name: [row.get(field.name) for row in made] for field in schema}
        self._updates.append(pa.table(columns, schema=schema))
        for row, gone in given:
            if gone:
                self.rows.pop(row["id"], None)
            else:
                self.rows[row["id"]] = row


class Job:
    """Declares tables, gives commands and reads what comes of them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.settings = SparkSettings.model_validate(dict(environment))
        self._bootstrap = environment["KAFKA_BOOTSTRAP"]
        self._producer = Producer(producer_config(self._bootstrap))

    def declare(self, tenant: str, declaration: Mapping[str, Any]) -> None:
        spec = read(dict(declaration))
        dumped = spec.model_dump(mode="json", by_alias=True)
        value = orjson.dumps({"tenant": tenant, "name": spec.name, "declaration": dumped})
        self._send(TABLES_TOPIC, f"{tenant}|{spec.name}", value)

    def forget(self, tenant: str, name: str) -> None:
        self._send(TABLES_TOPIC, f"{tenant}|{name}", None)

    def command(self, tenant: str, name: str, **args: Any) -> tuple[str, Any]:
        """Give it and wait for its end: status and detail."""
        identifier = f"cmd_{secrets.token_hex(8)}"
        value = orjson.dumps({"id": identifier, "tenant": tenant, "command": name, "args": args})
        self._send(COMMANDS_TOPIC, tenant, value)

        def ended() -> tuple[str, Any] | None:
            for message in self.read(COMMAND_RESULTS_TOPIC):
                if message["id"] == identifier and message["status"] != "running":
                    return message["status"], message["detail"]
            return None

        found = until(ended, f"{name} to end", deadline=240, pause=0.5)
        assert found is not None
        return found

    def refreshes(self, tenant: str, table: str) -> list[Row]:
        """What was told of the table's refreshes, oldest first."""
        told = self.read(TABLE_REFRESHES_TOPIC)
        return [one for one in told if (one["tenant"], one["table"]) == (tenant, table)]

    def read(self, topic: str) -> list[Row]:
        """Every message on a topic of one partition."""
        consumer = Consumer(consumer_config(self._bootstrap, f"test-{secrets.token_hex(4)}"))
        try:
            from confluent_kafka import TopicPartition

            place = TopicPartition(topic, 0, 0)
            _low, high = consumer.get_watermark_offsets(place, 10)
            consumer.assign([place])
            found = []
            while consumer.position([place])[0].offset < high:
                message = consumer.poll(1)
                if message is not None and message.error() is None and message.value():
                    found.append(orjson.loads(message.value() or b""))
            return found
        finally:
            consumer.close()

    def table(self, path: str) -> DeltaTable | None:
        uri = self.settings.lake_table(path).replace("s3a://", "s3://", 1)
        try:
            return DeltaTable(uri, storage_options=storage_options(self.settings))
        except TableNotFoundError:
            return None

    def rows(self, path: str, *key: str) -> dict[tuple[Any, ...], Row]:
        """The incremental table's rows by key; none while there is no table."""
        table = self.table(path)
        if table is None:
            return {}
        return newest(table.to_pyarrow_table().to_pylist(maps_as_pydicts="lossy"), key)

    def _send(self, topic: str, key: str, value: bytes | None) -> None:
        self._producer.produce(topic, value, key.encode())
        assert self._producer.flush(30) == 0
