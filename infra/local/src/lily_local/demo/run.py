"""The demo in order: bring up, then the five steps, each proved before the next; the figures at the end.

What can go on while the stack's Spark jobs still start does: the shop is seeded, its catalogue harvested and its own
Spark job started as soon as PostgreSQL and the API are up.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.markup import escape

from lily_cli.client import LilyClient
from lily_cli.settings import Settings
from lily_local.demo import catalogue, incident, lineage, notices, receivers, report, spark_process
from lily_local.demo import shop as shop_database
from lily_local.demo.checks import require
from lily_local.demo.sampling import MemorySampler
from lily_local.demo.shop import Shop
from lily_local.demo.spark_process import SparkJob
from lily_local.demo.stack import SPARK_JOB_SETS, Phases, Stack, running

MEMORY_LIMIT = 5 * 10**9
#: Set by `make demo`: when it began, in seconds since the epoch, so that what it installed before counts too.
BEGAN = "LILY_DEMO_BEGAN"
_COLD_SECONDS = 5.0
Figures = dict[str, Any]


@dataclass(frozen=True)
class _Scene:
    """What the steps work with."""

    console: Console
    stack: Stack
    tenant: str
    client: LilyClient
    shop: Shop
    job: SparkJob
    harvested: int

    def done(self, number: int, title: str, *lines: str) -> None:
        self.console.print(f"\n[bold green]✓ {number}[/bold green] [bold]{escape(title)}[/bold]")
        for line in lines:
            self.console.print(f"    {escape(line)}", soft_wrap=True)


def run(console: Console, *, keep: bool) -> Figures:
    """The figures. Raises DemoError, UserError or CliError with what went wrong."""
    phases = Phases()
    if began := os.environ.get(BEGAN):
        phases.seconds["setup"] = max(0.0, time.time() - float(began))
    with ExitStack() as exits:
        stack = exits.enter_context(running(console, phases, keep=keep, sets=SPARK_JOB_SETS))
        sampler = exits.enter_context(MemorySampler(stack.config))
        with phases.timed("start"):
            scene = _begin(console, stack, exits)
        with phases.timed("run"):
            figures = _steps(scene)
    _check_memory(sampler)
    if keep:
        _say_where(console, stack, scene)
    return {
        "cold": any(phases.seconds.get(name, 0.0) > _COLD_SECONDS for name in ("setup", "download")),
        "seconds": {name: round(value, 1) for name, value in phases.with_total().items()},
        "peak_memory_mb": round(sampler.peak / 1e6),
        "memory_mb": {name: round(size / 1e6) for name, size in sampler.peak_by_process.items()},
        **figures,
    }


def _begin(console: Console, stack: Stack, exits: ExitStack) -> _Scene:
    """Everything up and the shop's job on its way."""
    with console.status("starting the stack") as status:
        stack.wait_for("postgres")
        shop = shop_database.create(stack.postgres_uri)
        stack.wait_for("api")
        tenant, api_key = _new_tenant(stack)
        job = spark_process.start(stack.config.home / "demo", shop, stack.url, api_key)
        exits.callback(job.stop)
        client = exits.enter_context(LilyClient(Settings(stack.url, api_key, "", tenant)))
        harvested = catalogue.send(shop, stack.url, api_key)
        status.update("the shop's Spark job runs; the stack's own are starting")
        stack.wait_for()
    return _Scene(console, stack, tenant, client, shop, job, harvested)


def _new_tenant(stack: Stack) -> tuple[str, str]:
    """A tenant of this run's own with a key, so that nothing of an earlier run or of the user's is in the way."""
    tenant = f"demo-{int(time.time())}"
    with LilyClient(Settings(stack.url, "", stack.secrets.admin_key, tenant)) as operator:
        operator.post("/v1/tenants", {"id": tenant, "name": "The demo's shop"}, operator=True)
        key = operator.post("/v1/keys", {"name": "demo", "scopes": ["admin"]})
    return tenant, str(key["key"])


def _steps(scene: _Scene) -> Figures:
    spark = lineage.check(scene.client, scene.shop, scene.job)
    scene.done(
        1,
        "A Spark SQL job over the shop, reported by the unmodified OpenLineage listener",
        f"customers, orders, payments -> customer_revenue (files), daily_revenue (PostgreSQL): {spark.job_seconds:.1f} s",
        f"{spark.columns} columns of the marts and {spark.column_edges} column edges are readable,"
        f" {spark.readable_seconds:.1f} s after the job's end",
    )
    harvested = catalogue.check(scene.client, scene.shop, scene.harvested)
    scene.done(
        2,
        "The catalogue of the shop's PostgreSQL database",
        f"{harvested.events} events: {harvested.tables} tables and views, {harvested.columns} columns,"
        f" {harvested.described} column comments, as PostgreSQL itself lists them",
    )
    reported = incident.check(scene.client, scene.shop)
    scene.done(
        3,
        "A Monte Carlo incident, signed",
        f"'{reported.title}' hangs on {reported.table}, readable after {reported.readable_ms:.0f} ms;"
        " a forged signature got 401",
    )
    told = _tell(scene)
    return {
        "spark_job_seconds": round(spark.job_seconds, 1),
        "lineage_readable_seconds": round(spark.readable_seconds, 2),
        "incident_readable_ms": round(reported.readable_ms, 1),
        **_show(scene, told, spark.customer_revenue),
    }


def _tell(scene: _Scene) -> notices.Notices:
    column = scene.shop.qualified_name("public", "customers", "email")
    with receivers.webhook() as webhook, receivers.slack() as slack:
        told = notices.check(scene.client, column, webhook, slack)
    scene.done(
        4,
        f"customers.email is {notices.TAG}: a webhook receiver and a Slack-shaped one are told",
        "attached, detached and attached again: each told once to each, Standard Webhooks signatures verified;"
        " asserted twice: told once",
    )
    report.show_hops(scene.console, told.told)
    return told


def _show(scene: _Scene, told: notices.Notices, mart: str) -> Figures:
    column = scene.shop.qualified_name("public", "customers", "email")
    report.show_asset(scene.console, scene.client, column)
    report.show_lineage(scene.console, scene.client, column, mart)
    lake_waited = report.show_history(scene.console, scene.client, column, told.event_ids)
    deliveries = report.show_deliveries(scene.console, scene.client, told.told)
    scene.done(5, "What Lily holds: asset, lineage, history, deliveries as shown above")
    totals = [item.total for item in told.told]
    return {
        "received_ms": {
            "first": round(totals[0], 1),
            "median": round(median(totals), 1),
            "max": round(max(totals), 1),
        },
        "hops_ms": [
            {
                "change": item.change,
                "receiver": item.receiver,
                **{name: round(at, 1) for name, at in item.milliseconds().items()},
            }
            for item in told.told
        ],
        "lake_waited_ms": round(lake_waited, 1),
        "deliveries": deliveries,
    }


def _check_memory(sampler: MemorySampler) -> None:
    shares = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in sampler.peak_by_process.items())
    require(
        0 < sampler.peak < MEMORY_LIMIT,
        f"peak memory was {sampler.peak / 1e6:.0f} MB, allowed are {MEMORY_LIMIT / 1e6:.0f} MB: {shares}",
    )


def _say_where(console: Console, stack: Stack, scene: _Scene) -> None:
    console.print(
        f"\nThe stack stays up. Look around: [bold]source {stack.config.home}/env; "
        f"lily --tenant {scene.tenant} assets list --tag {notices.TAG}[/bold]; `lily down` stops it."
    )
