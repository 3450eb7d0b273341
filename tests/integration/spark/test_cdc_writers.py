"""Two drivers that append to one table on S3 lose no commit of one another, nor of a third that writes through Spark."""

from __future__ import annotations

import secrets
import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.support.stack import Stack

from lily_local import jars
from lily_spark.cdc.tables import row_table
from lily_spark.config import SparkSettings
from lily_spark.tables import open_table, storage_options

pytestmark = pytest.mark.stack
COMMITS = 25
DRIVER = """
import sys
import pyarrow as pa
from lily_spark.cdc.tables import row_table
from lily_spark.config import SparkSettings
from lily_spark.sinks.layers import UpdatesLayer

path, number, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
layered = row_table(path, ["id"], [pa.field("id", pa.int32())], buckets=2)
updates = UpdatesLayer(SparkSettings(), layered)
for commit in range(commits):
    row = {"id": number * 1000 + commit, "__version": "1", "__deleted": False}
    updates.append(pa.Table.from_pylist([row], schema=layered.table.schema))
"""
SPARK_DRIVER = """
import sys
from lily_spark import session
from lily_spark.config import SparkSettings

path, number, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
settings = SparkSettings()
spark = session.build(settings, session.App("writer", heap="512m", slots=1, lake=True))
for commit in range(commits):
    row = spark.sql(f"SELECT {number * 1000 + commit} AS id, '1' AS __version, false AS __deleted, "
                    f"'updates' AS __layer, {-number - 1} AS __bucket")
    row.write.format("delta").mode("append").save(settings.lake_table(path))
spark.stop()
"""


def test_three_drivers_lose_no_commit(servers: Stack, job_environment: dict[str, str]) -> None:
    path = f"cdc/acme/s{secrets.token_hex(3)}/public.t"
    environment = {**job_environment, "LILY_SPARK_JARS": jars.paths("spark")}
    settings = SparkSettings.model_validate(servers.environment)
    open_table(row_table(path, ["id"], [pa.field("id", pa.int32())], buckets=2).table, settings)
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", code, path, str(number), str(commits)],
            env=environment,
            stderr=subprocess.PIPE,
        )
        for number, (code, commits) in enumerate(((DRIVER, COMMITS), (DRIVER, COMMITS), (SPARK_DRIVER, 10)))
    ]
    for driver in drivers:
        _, errors = driver.communicate(timeout=240)
        assert driver.returncode == 0, errors.decode()[-3000:]
    uri = settings.lake_table(path).replace("s3a://", "s3://", 1)
    held = DeltaTable(uri, storage_options=storage_options(settings)).to_pyarrow_table(columns=["id"])
    expected = {
        n * 1000 + commit for n, commits in enumerate((COMMITS, COMMITS, 10)) for commit in range(commits)
    }
    assert sorted(held["id"].to_pylist()) == sorted(expected)
