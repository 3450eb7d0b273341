"""From catalogue rows to Lily's events (pure), and the harvest of one database: read, normalise, send.

An event's id is the hash of what it says and of the row's mark: a harvest that finds nothing changed makes the same ids
and so adds nothing. Only patches are made: what people wrote in Lily stays, and a comment that is not there clears
nothing. What was dropped from the database is not deleted from Lily.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson
import psycopg

from lily_common import events as ev
from lily_common.names import AssetType
from lily_connectors.inbound import Event
from lily_connectors.openlineage.names import catalogue_qualified_name, column_qualified_name
from lily_connectors.sender import Sender, Sent
from lily_connectors.vendors.postgres_catalog.catalogue import Catalogue, Row
from lily_connectors.vendors.postgres_catalog.config import Config

_TYPES = {
    "database": AssetType.DATABASE,
    "schema": AssetType.SCHEMA,
    "table": AssetType.TABLE,
    "view": AssetType.VIEW,
    "column": AssetType.COLUMN,
}
Progress = Callable[[int, int], None]


def normalise(rows: Iterable[Row], namespace: str) -> Iterator[Event]:
    """The events of these rows. `namespace` is OpenLineage's of the server."""
    for row in rows:
        if row.kind == "dependency":
            data: dict[str, Any] = {
                "upstream": qualified_name(namespace, row.detail["upstream"]),
                "downstream": qualified_name(namespace, row.path),
                "kind": "table",
                "transformation": "view",
            }
            yield _event(namespace, row, ev.EDGE_ADDED, data)
        else:
            yield _event(namespace, row, ev.ASSET_PATCHED, _patch(namespace, row))


def qualified_name(namespace: str, path: Sequence[str]) -> str:
    """The qualified name of (database, schema, table, column) as far as the path goes."""
    return column_qualified_name(catalogue_qualified_name(namespace, *path[:3]), *path[3:])


def _patch(namespace: str, row: Row) -> dict[str, Any]:
    name = qualified_name(namespace, row.path)
    kind = _TYPES[row.kind].value
    fields: dict[str, Any] = {"asset_type": kind, **row.detail}
    if row.path[-1] != name.rsplit("/", 1)[-1]:
        fields["name"] = row.path[-1]
    if row.comment:
        fields["description"] = row.comment
    return {"qualified_name": name, "asset_type": kind, "aspect": "core", "set": fields}


def _event(namespace: str, row: Row, event_type: str, data: dict[str, Any]) -> Event:
    content = orjson.dumps([event_type, data, row.mark], option=orjson.OPT_SORT_KEYS)
    return {
        "specversion": "1.0",
        "id": hashlib.sha256(content).hexdigest()[:40],
        "source": f"urn:lily:postgres-catalog:{namespace}/{row.path[0]}".replace(" ", "%20").replace(
            "|", "%7C"
        ),
        "type": event_type,
        "data": data,
    }


def harvest(dsn: str, config: Config, sender: Sender, progress: Progress | None = None) -> Sent:
    """Send the catalogue of the database at `dsn`. `progress` gets (events sent, about how many there are).

    Raises psycopg.Error when the database cannot be read, and what `Sender.send` raises.
    """
    with psycopg.connect(dsn, application_name="lily-harvest", autocommit=False) as connection:
        connection.read_only = True
        catalogue = Catalogue(connection, config.schemas, config.exclude)
        namespace = config.namespace or catalogue.namespace
        total = catalogue.estimate()
        events = normalise(catalogue.rows(), namespace)
        return sender.send_all(events, (lambda done: progress(done, total)) if progress else None)
