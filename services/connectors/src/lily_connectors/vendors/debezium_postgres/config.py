"""What a tenant sets for a PostgreSQL source."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lily_connectors.debezium.config import DatabaseName, Password, SourceConfig, Tables, User


class Config(SourceConfig):
    """The role needs LOGIN, REPLICATION, SELECT on the tables, and to own them or to be given the publication."""

    FIXED: ClassVar[frozenset[str]] = frozenset({"source", "database"})
    scheme: ClassVar[str] = "postgres"

    port: int = Field(5432, ge=1024, le=65535, description="Port of the server")
    database: DatabaseName = Field(description="Name of the database", examples=["shop"])
    user: User = Field(description="Role that reads the log", examples=["lily"])
    password: Password = Field(description="The role's password")
    tables: Tables = Field(
        description="Tables to read, as `schema.table`; `schema.*` is every table of the schema",
        examples=[["public.orders"]],
    )
    tls: Literal["prefer", "disable", "require", "verify-full"] = Field(
        "prefer", description="As PostgreSQL's sslmode; `verify-full` proves the server's name"
    )

    def captured(self) -> list[str]:
        return self.tables
