"""Step 1: a real Spark SQL job, its lineage reported by the unmodified OpenLineage listener, readable in Lily."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from lily_cli.client import LilyClient, Params, path_segment
from lily_connectors.openlineage.names import to_qualified_name
from lily_local.demo.checks import require, until
from lily_local.demo.shop import Shop
from lily_local.demo.spark_process import SparkJob

JOB_SECONDS = 150
READABLE_SECONDS = 45
_TABLES = ("customers", "orders", "payments")
_COLUMNS = {
    "customer_revenue": {"customer_id", "email", "country", "orders", "revenue"},
    "daily_revenue": {"day", "country", "revenue"},
}


@dataclass(frozen=True)
class Lineage:
    """What step 1 proved: the marts' qualified names, how many edges, seconds of the job and until readable after it."""

    customer_revenue: str
    daily_revenue: str
    columns: int
    column_edges: int
    job_seconds: float
    readable_seconds: float


def check(client: LilyClient, shop: Shop, job: SparkJob) -> Lineage:
    """Wait for the job, then for its marts, their columns and their column lineage to be readable."""
    job_seconds = job.wait(JOB_SECONDS)
    done = time.monotonic()
    revenue = to_qualified_name("file", str(job.marts / "customer_revenue"))
    daily = shop.qualified_name("marts", "daily_revenue")
    require(any(job.marts.joinpath("customer_revenue").glob("*.parquet")), "the job wrote no mart")
    names = {"customer_revenue": revenue, "daily_revenue": daily}
    sources = {shop.qualified_name("public", table) for table in _TABLES}
    for mart, name in names.items():
        columns = _COLUMNS[mart]
        until(f"the columns of {name}", partial(_has_columns, client, name, columns), READABLE_SECONDS)
        until(f"{name} from its tables", partial(_comes_from, client, name, sources), READABLE_SECONDS)
    for column, source in (
        (f"{revenue}/email", shop.qualified_name("public", "customers", "email")),
        (f"{revenue}/revenue", shop.qualified_name("public", "payments", "amount")),
        (f"{daily}/day", shop.qualified_name("public", "orders", "ordered_at")),
    ):
        until(f"{column} from {source}", partial(_comes_from, client, column, {source}), READABLE_SECONDS)
    readable = time.monotonic() - done
    edges = [edge for name in names.values() for edge in walk(client, name, "upstream", 1, "column")["edges"]]
    return Lineage(revenue, daily, sum(map(len, _COLUMNS.values())), len(edges), job_seconds, readable)


def walk(
    client: LilyClient, qualified_name: str, direction: str, depth: int, level: str | None = None
) -> dict[str, Any]:
    """The lineage API's answer: root, nodes, edges."""
    wanted: Params = {"direction": direction, "depth": depth, "level": level}
    found: dict[str, Any] = client.get(f"/v1/assets/{path_segment(qualified_name)}/lineage", wanted)
    return found


def _comes_from(client: LilyClient, qualified_name: str, sources: set[str]) -> bool:
    """Whether each of `sources` is one step above the asset itself."""
    edges = walk(client, qualified_name, "upstream", 1)["edges"]
    return {edge["upstream"] for edge in edges if edge["downstream"] == qualified_name} >= sources


def _has_columns(client: LilyClient, table: str, columns: set[str]) -> bool:
    return {item["name"] for item in client.pages("/v1/assets", {"parent": table})} >= columns
