"""The lake beside its plain alternatives, each pair in one run on the same S3 and Spark session.

`upsert-time`, `upsert-bytes`: small batches of random keys into a large table, beside one MERGE a batch. `refresh-1m`,
`refresh-10m`: an incremental table at 0.1 % changed, beside a full refresh. `commits-…`: a table of 10,000 commits
beside the same events in 100. `archive`: bytes and seconds per million events beside gzipped JSON lines. `freshness`:
an acknowledged change to visible in `assets_latest`, through the whole stack. Large fixtures are bulk-written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from lily_local import jars
from lily_spark import session
from lily_spark.config import SparkSettings
from tests.bench import lake_archive, lake_commits, lake_refresh, lake_upsert, plans
from tests.bench.latency import store_row
from tests.bench.result import Row, percentiles, publish, save
from tests.bench.run import Observed, Runner
from tests.support.spark import end
from tests.support.stack import Stack, running_stack

CASES = ("refresh", "commits", "archive", "upsert", "freshness")


def freshness(stack: Stack, folder: Path, seconds: float) -> Row:
    """Acknowledged to visible, at 200 events a second."""
    runner = Runner(stack, folder)
    warm = stack.new_tenant()
    runner.run(plans.mixed(warm.id, 200, 15), warm, stores=True)
    tenant = stack.new_tenant()
    observed = runner.run(plans.mixed(tenant.id, 200, seconds), tenant, stores=True)
    row = store_row("freshness", observed, 1, observed.lake, {})
    return Row(row.case, {**row.ours, **percentiles(_from_acknowledged(observed))}, row.gate)


def _from_acknowledged(observed: Observed) -> list[float]:
    """Milliseconds from the answer to visible in the lake."""
    pairs = ((at, observed.lake.get(observed.assets[event])) for event, at in observed.acked.items())
    return [(seen - at) / 1e6 for at, seen in pairs if seen is not None]


def on_spark(stack: Stack, wanted: set[str], scale: float) -> Iterator[Row]:
    """The cases that need S3 and Spark alone."""
    settings = SparkSettings.model_validate({**stack.environment, "LILY_SPARK_JARS": jars.paths("spark")})
    spark = session.build(settings, session.App("bench-lake", heap="3g", slots=2, lake=True))
    try:
        cases: dict[str, Callable[[], Iterator[Row]]] = {
            "refresh": lambda: _refreshes(settings, spark, scale),
            "commits": lambda: lake_commits.rows(settings, spark, int(10_000 * scale), int(100 * scale)),
            "archive": lambda: lake_archive.rows(settings, int(1_000_000 * scale)),
            "upsert": lambda: lake_upsert.rows(
                settings,
                spark,
                int(5_000_000 * scale),
                batches=max(10, int(50 * min(1, scale * 4))),
                every=10,
            ),
        }
        for name, case in cases.items():
            if name in wanted:
                yield from case()
    finally:
        end(spark)


def _refreshes(settings: SparkSettings, spark: SparkSession, scale: float) -> Iterator[Row]:
    yield from lake_refresh.rows(settings, spark, int(1_000_000 * scale), "refresh-1m")
    yield from lake_refresh.rows(settings, spark, int(10_000_000 * scale), "refresh-10m")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lake")
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="Share of the full sizes, for a trial")
    parser.add_argument("--seconds", type=float, default=60, help="Length of the freshness run")
    arguments = parser.parse_args()
    wanted = set(arguments.only)
    some = wanted != set(CASES) and arguments.scale == 1
    rows: list[Row] = []
    if wanted - {"freshness"}:
        with running_stack("s3") as stack:
            for row in on_spark(stack, wanted, arguments.scale):
                rows.append(row)
                # Most of an hour: what is measured is kept, whatever becomes of the rest.
                save("lake", rows, others=some)
                print(f"{row.case}: ours {row.ours}, peer {row.peer}, ratio {row.ratio}", flush=True)
    if "freshness" in wanted:
        with tempfile.TemporaryDirectory() as folder, running_stack() as stack:
            rows.append(freshness(stack, Path(folder), arguments.seconds))
    return publish("lake", rows, others=some)


if __name__ == "__main__":
    sys.exit(main())
