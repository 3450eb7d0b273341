"""What of a PostgreSQL database is harvested, and under which names."""

from __future__ import annotations

from pydantic import Field

from lily_connectors.config import ConnectorConfig, Namespace


class Config(ConnectorConfig):
    """The connection itself is given to the harvest command and stored nowhere."""

    namespace: Namespace | None = Field(
        None,
        description="OpenLineage namespace of the server; `postgres://<host>:<port>` of the connection when missing",
        examples=["postgres://shop-db:5432"],
    )
    schemas: list[str] = Field(
        default_factory=list, description="Only these schemas; all but the system's when empty"
    )
    exclude: list[str] = Field(default_factory=list, description="Schemas to leave out")
