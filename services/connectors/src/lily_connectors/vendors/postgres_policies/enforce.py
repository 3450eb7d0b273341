"""How the database is kept."""

from __future__ import annotations

from lily_connectors.enforcing.keeper import Scope
from lily_connectors.enforcing.wanted import Name
from lily_connectors.vendors.postgres_policies.config import Config


def scope(config: Config) -> Scope:
    return Scope(config.schemas, config.named_readers(), config.enforce == "views")


def asset(config: Config, table: Name, column: str | None) -> str:
    """The qualified name of a table, or of a column of it."""
    name = f"{config.root}/{table.schema}/{table.table}"
    return name if column is None else f"{name}/{column}"
