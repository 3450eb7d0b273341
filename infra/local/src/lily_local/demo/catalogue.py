"""Step 2: the catalogue of the shop's PostgreSQL database, harvested; what Lily has is what PostgreSQL says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from lily_cli.client import LilyClient, path_segment
from lily_connectors.sender import Sender
from lily_connectors.vendors.postgres_catalog.config import Config
from lily_connectors.vendors.postgres_catalog.harvest import harvest
from lily_local.demo.checks import require, until
from lily_local.demo.shop import Shop, rows

READABLE_SECONDS = 45
_COLUMNS = """
    SELECT table_schema, table_name, column_name,
           col_description(format('%I.%I', table_schema, table_name)::regclass, ordinal_position)
    FROM information_schema.columns
    WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
"""


@dataclass(frozen=True)
class Catalogue:
    """What step 2 proved."""

    events: int
    tables: int
    columns: int
    described: int


def send(shop: Shop, lily_url: str, api_key: str) -> int:
    """Harvest; how many events were accepted."""
    with Sender(lily_url, api_key) as sender:
        sent = harvest(shop.uri, Config(), sender)
    require(sent.rejected == 0, f"{sent.rejected} events of the harvest were rejected: {sent.problems[:1]}")
    require(sent.accepted > 0, "the harvest found nothing")
    return sent.accepted


def check(client: LilyClient, shop: Shop, events: int) -> Catalogue:
    """Every table has its columns in Lily, and every comment is a description there."""
    tables: dict[tuple[str, str], set[str]] = {}
    comments: dict[str, str] = {}
    for schema, table, column, comment in rows(shop, _COLUMNS):
        tables.setdefault((str(schema), str(table)), set()).add(str(column))
        if comment:
            comments[shop.qualified_name(str(schema), str(table), str(column))] = str(comment)
    require(tables and comments, "the shop has no tables or no comments")
    for (schema, table), columns in tables.items():
        parent = shop.qualified_name(schema, table)
        until(f"the columns of {parent}", partial(_has_columns, client, parent, columns), READABLE_SECONDS)
    for column, comment in comments.items():
        found = client.get(f"/v1/assets/{path_segment(column)}")["description"]
        require(found == comment, f"{column} is described as '{found}', not as '{comment}'")
    return Catalogue(events, len(tables), sum(map(len, tables.values())), len(comments))


def _has_columns(client: LilyClient, parent: str, columns: set[str]) -> bool:
    return {
        item["name"] for item in client.pages("/v1/assets", {"parent": parent, "type": "column"})
    } >= columns
