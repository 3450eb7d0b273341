"""silver.assets as propagation reads it: what was appended since a version, or all that a tenant has."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lily_common.state import DELETED
from lily_spark.config import SparkSettings
from lily_spark.propagation.facts import Row
from lily_spark.storage.snapshots import Span, VersionGoneError, changes, open_snapshot
from lily_spark.tables import ASSETS

_COLUMNS = ["tenant", "subject", "register", "type", "version", "data"]
#: More appended rows than this are not taken one by one: the index is made anew.
_MOST_ROWS = 2_000_000
_READAHEAD = {"batch_readahead": 4, "fragment_readahead": 2}


class Silver:
    """Reads by the deltalake library: a few milliseconds where Spark would plan for longer."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings

    def version(self) -> int:
        """The newest version. Raises VersionGoneError while there is no table."""
        table = open_snapshot(self._settings, ASSETS.name)
        if table is None:
            raise VersionGoneError("there is no silver.assets yet")
        return int(table.version())

    def since(self, version: int, last: int, tenants: frozenset[str]) -> Iterator[Row]:
        """Registers of these tenants that were written in the versions after `version`, up to `last`.

        Raises VersionGoneError when the lake no longer has them, TooManyChangesError when they are too many.
        """
        found = changes(self._settings, ASSETS.name, Span(version, version + 1, last), _COLUMNS, _MOST_ROWS)
        wanted = pc.is_in(found.column("tenant"), pa.array(sorted(tenants), pa.string()))
        for batch in found.filter(wanted).to_batches():
            yield from _rows(batch)

    def all(self, version: int, tenant: str) -> Iterator[Row]:
        """Every register of the tenant at that version, of both layers; overtaken ones may be among them.

        Raises VersionGoneError when the version is gone.
        """
        table = open_snapshot(self._settings, ASSETS.name)
        if table is None:
            raise VersionGoneError("there is no silver.assets")
        try:
            table.load_as_version(version)
            scanner = table.to_pyarrow_dataset().scanner(
                columns=_COLUMNS, filter=pc.field("tenant") == tenant, **_READAHEAD
            )
            for batch in scanner.to_batches():
                yield from _rows(batch)
        except (OSError, ValueError) as failed:
            raise VersionGoneError(f"version {version} of {ASSETS.name} is gone: {failed}") from failed


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    columns = (batch.column(name).to_pylist() for name in _COLUMNS)
    for tenant, subject, register, kind, version, data in zip(*columns, strict=True):
        yield Row(tenant, subject, register, kind, version, {} if register == DELETED else orjson.loads(data))
