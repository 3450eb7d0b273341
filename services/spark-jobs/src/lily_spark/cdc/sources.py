"""What the API says of each source of change data: where its assets hang and what of its tables is mirrored."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field

from lily_common.events import CDC_SOURCES_TOPIC
from lily_spark.cdc.topics import Capture
from lily_spark.sources.compacted import Compacted


class MirroredTable(BaseModel, frozen=True):
    """What of a table the mirror holds: these columns beside the key, for `ttl_days` (None: for ever)."""

    columns: tuple[str, ...] = ()
    ttl_days: float | None = Field(None, gt=0)


class Source(BaseModel):
    """One message of `lily.cdc-sources`. `database` is empty where a table's own name begins with it (MongoDB)."""

    tenant: str
    source: str
    namespace: str | None = None
    database: str | None = None
    mirror: dict[str, MirroredTable] = Field(default_factory=dict)


class Sources:
    """The sources as of now."""

    def __init__(self, bootstrap: str) -> None:
        self._topic = Compacted(bootstrap, CDC_SOURCES_TOPIC, "lily-cdc-sources", Source.model_validate_json)

    def current(self) -> dict[str, Source]:
        """`<tenant>|<source>` -> source. Raises UnavailableError when Kafka does not answer."""
        return self._topic.current()


def mirrored(sources: Mapping[str, Source], capture: Capture) -> MirroredTable | None:
    """What of this table is mirrored; None: nothing."""
    source = sources.get(f"{capture.tenant}|{capture.source}")
    return source.mirror.get(capture.name) if source is not None else None


def asset(sources: Mapping[str, Source], capture: Capture) -> str:
    """Qualified name of the table, as the catalogue's harvest has it; one of our own for a source that is not known."""
    source = sources.get(f"{capture.tenant}|{capture.source}")
    schema, table = capture.name.split(".", 1)
    namespace = source.namespace if source is not None else None
    if source is None or not namespace:
        return f"cdc://{capture.source}/{schema}/{table}"
    return "/".join(part for part in (namespace, source.database, schema, table) if part)
