"""Messages in the form of Debezium's connectors with Connect's JSON converter (`schemas.enable=true`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

Schema = dict[str, Any]


def of(kind: str, name: str | None = None, **more: Any) -> Schema:
    """A Connect schema: `of("int32", "io.debezium.time.Date")`."""
    return {"type": kind, "optional": True} | ({"name": name} if name else {}) | more


def struct(fields: dict[str, Schema], name: str = "", *, optional: bool = True) -> Schema:
    members = [{**schema, "field": member} for member, schema in fields.items()]
    return {"type": "struct", "fields": members, "optional": optional, "name": name}


def decimal(precision: int, scale: int) -> Schema:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return of("bytes", "org.apache.kafka.connect.data.Decimal", version=1, parameters=parameters)


_SOURCE = {
    "version": of("string"),
    "connector": of("string"),
    "name": of("string"),
    "ts_ms": of("int64"),
    "snapshot": of("string"),
    "db": of("string"),
}
_POSTGRES = _SOURCE | {"schema": of("string"), "table": of("string"), "txId": of("int64"), "lsn": of("int64")}
_MONGO = _SOURCE | {"collection": of("string"), "ord": of("int32"), "lsid": of("string")}
#: Seconds since 1970 of the first change that a test makes.
START = 1_780_000_000


@dataclass
class Postgres:
    """A captured table of PostgreSQL. `columns` is its schema; `key` the names of its primary key, perhaps none."""

    columns: dict[str, Schema]
    key: tuple[str, ...]
    schema: str = "public"
    table: str = "t"
    lsn: int = field(default=1000)

    def create(self, row: dict[str, Any], **more: Any) -> tuple[bytes | None, bytes]:
        return self.message("c", after=row, **more)

    def update(self, row: dict[str, Any], **more: Any) -> tuple[bytes | None, bytes]:
        return self.message("u", after=row, **more)

    def delete(self, key: dict[str, Any], **more: Any) -> tuple[bytes | None, bytes]:
        before = dict.fromkeys(self.columns) | key
        return self.message("d", before=before, **more)

    def truncate(self) -> tuple[bytes | None, bytes]:
        _, value = self.message("t")
        return None, value

    def message(
        self,
        op: str,
        *,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
        lsn: int | None = None,
        seconds: int | None = None,
    ) -> tuple[bytes | None, bytes]:
        """(key, value). The log position grows with each message unless `lsn` is given."""
        self.lsn += 8
        time = 1000 * (START + self.lsn if seconds is None else seconds)
        row = struct(self.columns, f"shop.{self.schema}.{self.table}.Value")
        schema = _envelope(row, struct(_POSTGRES, "io.debezium.connector.postgresql.Source", optional=False))
        source = {
            "version": "3.6.3.Final",
            "connector": "postgresql",
            "name": "cdc.acme.shop",
            "ts_ms": time,
            "snapshot": "false",
            "db": "shop",
            "schema": self.schema,
            "table": self.table,
            "txId": 7,
            "lsn": self.lsn if lsn is None else lsn,
        }
        payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": time}
        held = after if after is not None else before
        key = None
        if self.key and held is not None:
            key = _json(
                struct({name: self.columns[name] for name in self.key}, "Key", optional=False),
                {name: held[name] for name in self.key},
            )
        return key, _json(schema, payload)


@dataclass
class Mongo:
    """A captured collection of MongoDB; documents are given as JSON text."""

    ord: int = 0

    def message(self, op: str, key: str, document: str | None = None) -> tuple[bytes, bytes]:
        self.ord += 1
        text = of("string", "io.debezium.data.Json", version=1)
        schema = _envelope(text, struct(_MONGO, "io.debezium.connector.mongo.Source", optional=False))
        source = {
            "version": "3.6.3.Final",
            "connector": "mongodb",
            "name": "cdc.acme.docs",
            "ts_ms": 1000 * START,
            "snapshot": "false",
            "db": "shop",
            "collection": "reviews",
            "ord": self.ord,
            "lsid": None,
        }
        payload = {"before": None, "after": document, "source": source, "op": op, "ts_ms": 1000 * START}
        return _json(struct({"id": of("string")}, "Key", optional=False), {"id": key}), _json(schema, payload)


def _envelope(row: Schema, source: Schema) -> Schema:
    fields = {
        "before": row,
        "after": row,
        "source": source,
        "op": of("string"),
        "ts_ms": of("int64"),
        "transaction": struct({"id": of("string"), "total_order": of("int64")}, "event.block"),
    }
    return struct(fields, "cdc.Envelope", optional=False)


def _json(schema: Schema, payload: dict[str, Any]) -> bytes:
    return orjson.dumps({"schema": schema, "payload": payload})
