"""What a tenant sets for a source of change data.

What ends up in Connect's configuration is held to narrow forms: a host or database with a `?` in it would set options of
the database's driver, and a `${…}` would read another source's password.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    model_validator,
)

from lily_connectors.config import ConnectorConfig, Namespace

MAX_TABLES = 200
_HOST = re.compile(
    r"^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?$"
)


def _host(value: str) -> str:
    try:
        return str(ip_address(value.strip("[]")))
    except ValueError:
        if not _HOST.match(value):
            raise ValueError("must be a host name or an IP address, without port or path") from None
        return value.lower()


def _no_reference(value: str) -> str:
    if "${" in value:
        raise ValueError("must not hold '${'")
    return value


Host = Annotated[str, StringConstraints(min_length=1, max_length=253), AfterValidator(_host)]
#: Names that go into a connection's address.
DatabaseName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")]
User = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$"),
    AfterValidator(_no_reference),
]
Password = Annotated[SecretStr, Field(min_length=1, max_length=512)]
#: `schema.table` or `database.collection`; `schema.*` is everything in it. What else a name may hold has no place in a topic's.
TableName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}\.([A-Za-z0-9_][A-Za-z0-9_-]{0,62}|\*)$")
]
Tables = Annotated[list[TableName], Field(min_length=1, max_length=MAX_TABLES)]
Source = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Snapshot = Literal["initial", "when_needed", "no_data"]
Column = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class MirrorTable(BaseModel):
    """What of a table the mirror holds: the newest row of each key, these columns of it, for so long."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: list[Column] = Field(
        min_length=1, max_length=200, description="Columns to mirror; the primary key is always there"
    )
    ttl_days: int | None = Field(
        None, ge=1, le=3650, description="Days after which a row leaves the mirror; it stays when missing"
    )


class SourceConfig(ConnectorConfig):
    """Fields of every source. `password` is kept encrypted, apart, and never shown again."""

    #: Fields that are settled when the source is made: tables of the lake are named after them and ordered by their log.
    FIXED: ClassVar[frozenset[str]] = frozenset({"source"})

    source: Source = Field(
        description="Short name of the database in topics and tables; stands for one database for ever",
        examples=["shop"],
    )
    host: Host = Field(description="Host name or address of the database", examples=["shop-db.example.com"])
    port: int = Field(ge=1024, le=65535, description="Port of the database")
    snapshot: Snapshot = Field(
        "initial",
        description="`initial` reads what is there, once; `when_needed` again when the log has been lost; "
        "`no_data` takes changes from now on only",
    )
    namespace: Namespace | None = Field(
        None, description="OpenLineage namespace of the server; `<scheme>://<host>:<port>` when missing"
    )
    mirror: dict[TableName, MirrorTable] = Field(
        default_factory=dict, description="Tables whose newest rows the mirror answers by key"
    )

    #: Scheme of the namespace.
    scheme: ClassVar[str] = ""

    def captured(self) -> list[str]:
        """The tables (or collections) that are read, as given."""
        raise NotImplementedError

    @property
    def assets_namespace(self) -> str:
        return self.namespace or f"{self.scheme}://{self.host}:{self.port}"

    @model_validator(mode="after")
    def _mirrors_what_is_captured(self) -> SourceConfig:
        held = set(self.captured())
        for name in self.mirror:
            whole = f"{name.partition('.')[0]}.*"
            if name.endswith(".*") or (name not in held and whole not in held):
                raise ValueError(f"mirror: {name} is not one of the tables that are captured")
        return self
