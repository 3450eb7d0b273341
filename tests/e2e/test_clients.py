"""Clients that know nothing of Lily, unmodified: OpenLineage's for Python and its listener in a Spark job."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import column_lineage_dataset, schema_dataset
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport

from lily_local import jars
from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import Tenant

pytestmark = pytest.mark.stack

WAREHOUSE = "postgres://warehouse:5432"


def lineage(tenant: Tenant, asset: str, **params: Any) -> set[tuple[str, str]]:
    view = tenant.get(f"/v1/assets/{quote(asset, safe='')}/lineage", **params)
    return {(edge["upstream"], edge["downstream"]) for edge in view["edges"]}


def assets(tenant: Tenant, **params: Any) -> list[str]:
    return [item["qualified_name"] for item in tenant.get("/v1/assets", **params)["items"]]


def tables(tenant: Tenant, name: str) -> list[str]:
    """Assets of that last part that are no jobs: OpenLineage's jobs are assets too."""
    found = assets(tenant, q=name)
    return [asset for asset in found if asset.endswith(f"/{name}") and not asset.startswith("job:")]


def test_the_openlineage_client_for_python(stack: Stack) -> None:
    tenant = stack.new_tenant()
    config = HttpConfig(url=tenant.url, auth=ApiKeyTokenProvider({"apiKey": tenant.key}))
    client = OpenLineageClient(transport=HttpTransport(config))
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name, kind)
        for name, kind in (("id", "int"), ("email", "text"))
    ]
    source = InputDataset(
        WAREHOUSE, "shop.public.customers", {"schema": schema_dataset.SchemaDatasetFacet(fields)}
    )
    from_email = column_lineage_dataset.InputField(WAREHOUSE, "shop.public.customers", "email")
    by_column = {"contact": column_lineage_dataset.Fields([from_email])}
    target = OutputDataset(
        WAREHOUSE,
        "shop.marts.contacts",
        {
            "schema": schema_dataset.SchemaDatasetFacet(
                [schema_dataset.SchemaDatasetFacetFields("contact", "text")]
            ),
            "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(by_column),
        },
    )
    run = Run(str(uuid.uuid4()))
    for state in (RunState.START, RunState.COMPLETE):
        client.emit(
            RunEvent(
                eventTime=datetime.now(UTC).isoformat(),
                producer="https://example.com/tests",
                run=run,
                job=Job("nightly", "contacts"),
                eventType=state,
                inputs=[source],
                outputs=[target],
            )
        )
    client.close(5)
    table = until(lambda: tables(tenant, "contacts"))[0]
    upstream = until(lambda: lineage(tenant, table, direction="upstream"))
    assert any("customers" in source for source, _ in upstream)
    columns = until(lambda: assets(tenant, parent=table))
    assert [name.rsplit("/", 1)[1] for name in columns] == ["contact"]
    by_columns = until(lambda: lineage(tenant, columns[0], direction="upstream", level="column"))
    assert any(source.endswith("email") for source, _ in by_columns)


SPARK_JOB = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
customers = spark.createDataFrame([(1, "a@x.example"), (2, "b@x.example")], "id int, email string")
customers.write.parquet("{folder}/customers")
contacts = spark.read.parquet("{folder}/customers").selectExpr("id", "lower(email) AS contact")
contacts.write.parquet("{folder}/contacts")
spark.stop()
"""


def test_the_openlineage_listener_of_a_spark_job(stack: Stack, tmp_path: Path) -> None:
    """The listener is Maven's; the job is its own process and knows Lily only as the transport's URL."""
    tenant = stack.new_tenant()
    script = tmp_path / "job.py"
    script.write_text(SPARK_JOB.format(folder=tmp_path))
    settings = {
        "spark.jars": jars.paths("openlineage"),
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": tenant.url,
        "spark.openlineage.transport.auth.type": "api_key",
        "spark.openlineage.transport.auth.apiKey": tenant.key,
        "spark.openlineage.namespace": "tests",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "512m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.master": "local[1]",
    }
    arguments = " ".join(f"--conf '{name}={value}'" for name, value in settings.items())
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
    }
    job = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert job.returncode == 0, job.stderr[-4000:]
    table = until(lambda: tables(tenant, "contacts"), job.stderr[-500:])
    upstream = until(lambda: lineage(tenant, table[0], direction="upstream"))
    assert any(source.endswith("/customers") for source, _ in upstream)
    columns = until(lambda: assets(tenant, parent=table[0]))
    assert {name.rsplit("/", 1)[1] for name in columns} == {"id", "contact"}
    contact = next(name for name in columns if name.endswith("/contact"))
    by_columns = until(lambda: lineage(tenant, contact, direction="upstream", level="column"))
    assert any(source.endswith("/email") for source, _ in by_columns)
