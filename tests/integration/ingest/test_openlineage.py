"""OpenLineage's real Python client, unmodified, and what its API promises."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    Dataset,
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.event_v2 import DatasetEvent as DatasetTold
from openlineage.client.facet_v2 import column_lineage_dataset as lineage
from openlineage.client.facet_v2 import parent_run, schema_dataset
from openlineage.client.transport.async_http import AsyncHttpConfig, AsyncHttpTransport
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpCompression, HttpConfig, HttpTransport
from openlineage.client.uuid import generate_new_uuid
from tests.support.stack import Stack
from tests.support.tenant import Tenant

from .conftest import Watch

pytestmark = pytest.mark.stack
PG = "postgres://shop-db:5432"
FIXTURES = Path(__file__).parents[2] / "unit" / "connectors" / "openlineage" / "fixtures"


def told(state: RunState = RunState.COMPLETE, run: str | None = None) -> RunEvent:
    fields = [schema_dataset.SchemaDatasetFacetFields(name="email", type="text")]
    source = lineage.InputField(namespace=PG, name="shop.public.customers", field="email")
    facet = lineage.ColumnLineageDatasetFacet(
        fields={
            "email": lineage.Fields(inputFields=[source], transformationDescription="", transformationType="")
        }
    )
    parent = parent_run.ParentRunFacet(
        run=parent_run.Run(runId=str(generate_new_uuid())),
        job=parent_run.Job(namespace="shop", name="nightly"),
    )
    return RunEvent(
        eventType=state,
        eventTime=datetime.now(UTC).isoformat(),
        run=Run(runId=run or str(generate_new_uuid()), facets={"parent": parent}),
        job=Job(namespace="shop", name="customers_mart"),
        inputs=[InputDataset(namespace=PG, name="shop.public.customers", facets={})],
        outputs=[
            OutputDataset(
                namespace=PG,
                name="shop.marts.customers",
                facets={"schema": schema_dataset.SchemaDatasetFacet(fields=fields), "columnLineage": facet},
            )
        ],
        producer="https://example.com/tests",
    )


def auth(tenant: Tenant) -> ApiKeyTokenProvider:
    return ApiKeyTokenProvider({"apiKey": tenant.key})


@pytest.mark.parametrize("compression", [None, HttpCompression.GZIP])
def test_the_python_client_is_used_unmodified(
    tenant: Tenant, watch: Watch, compression: HttpCompression | None
) -> None:
    config = HttpConfig(url=tenant.url, auth=auth(tenant), compression=compression)
    client = OpenLineageClient(transport=HttpTransport(config))
    run = str(generate_new_uuid())
    client.emit(told(RunState.START, run))
    client.emit(told(RunState.COMPLETE, run))
    client.emit(
        JobEvent(eventTime=datetime.now(UTC).isoformat(), job=Job("shop", "declared"), producer="https://x")
    )
    dataset = Dataset(namespace="s3://lake", name="raw/orders")
    client.emit(DatasetTold(eventTime=datetime.now(UTC).isoformat(), dataset=dataset, producer="https://x"))
    client.close()
    changes = watch.changes()
    subjects = {change["subject"] for change in changes}
    assert {
        "job://shop/customers_mart",
        "job://shop/nightly",
        "job://shop/declared",
        "s3://lake/raw/orders",
        f"{PG}/shop/public/customers",
        f"{PG}/shop/marts/customers",
        f"{PG}/shop/marts/customers/email",
    } <= subjects
    edges = {
        (change["data"]["upstream"], change["data"]["downstream"])
        for change in changes
        if "upstream" in change["data"]
    }
    assert edges == {
        (f"{PG}/shop/public/customers", f"{PG}/shop/marts/customers"),
        (f"{PG}/shop/public/customers/email", f"{PG}/shop/marts/customers/email"),
    }
    assert {
        change["_topic"]
        for change in changes
        if change["subject"].endswith("/email") and "set" in change["data"]
    } == {"lily.changes.bulk"}
    assert len(watch.raw()) == 4


def test_the_asynchronous_client_is_used_unmodified(tenant: Tenant, watch: Watch) -> None:
    transport = AsyncHttpTransport(AsyncHttpConfig(url=tenant.url, auth=auth(tenant)))
    for _ in range(20):
        transport.emit(told())
    assert transport.close(timeout=30)
    runs = {change["data"]["run_id"] for change in watch.changes() if "run_id" in change["data"]}
    assert len(runs) == 20


def spark(case: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((FIXTURES / f"spark__{case}.json").read_text())
    return event


def test_an_event_as_the_spark_listener_sends_it(tenant: Tenant, watch: Watch) -> None:
    answer = tenant.client.post("/api/v1/lineage", json=spark("write_complete"))
    assert answer.status_code == 201
    changes = watch.changes()
    assert answer.json() == {"status": "accepted", "changes": len(changes)}
    again = tenant.client.post("/api/v1/lineage", json=spark("write_complete"))
    assert again.status_code == 201
    identities = [(change["source"], change["id"]) for change in watch.changes()]
    assert len(identities) == 2 * len(changes)
    assert len(set(identities)) == len(changes), "the same event again has the same identities"


def test_a_batch_answers_by_the_specification(tenant: Tenant, watch: Watch) -> None:
    events = [spark("write_start"), {"eventTime": "yesterday"}, spark("write_complete"), 5]
    body = gzip.compress(json.dumps(events).encode())
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = tenant.client.post("/api/v1/lineage/batch", content=body, headers=headers)
    assert answer.status_code == 200
    said = answer.json()
    assert said["status"] == "partial_success"
    assert said["summary"] == {
        "received": 4,
        "successful": 2,
        "failed": 2,
        "retriable": 0,
        "non_retriable": 2,
    }
    assert [failed["index"] for failed in said["failed_events"]] == [1, 3]
    assert watch.changes()
    good = tenant.client.post("/api/v1/lineage/batch", json=[spark("write_start")])
    assert (good.status_code, good.json()["status"]) == (200, "success")
    bad = tenant.client.post("/api/v1/lineage/batch", json=[{}])
    assert (bad.status_code, bad.json()["status"]) == (422, "failure")


@pytest.mark.parametrize(
    ("path", "content", "content_type", "status"),
    [
        ("", b"{", "application/json", 400),
        ("", b"[]", "application/json", 422),
        ("", b"{}", "application/json", 422),
        ("", b"{}", "text/xml", 415),
        ("/batch", b"{}", "application/json", 422),
        ("/batch", b"[", "application/json", 400),
    ],
)
def test_bad_events(
    *, tenant: Tenant, watch: Watch, path: str, content: bytes, content_type: str, status: int
) -> None:
    headers = {"content-type": content_type}
    answer = tenant.client.post(f"/api/v1/lineage{path}", content=content, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert watch.changes() == []


def test_one_name_too_long_refuses_the_whole_event(tenant: Tenant, watch: Watch) -> None:
    event = spark("write_complete")
    event["outputs"][0]["facets"]["schema"]["fields"].append({"name": "x" * 10_240, "type": "int"})
    answer = tenant.client.post("/api/v1/lineage", json=event)
    assert answer.status_code == 422, "a 2xx would promise what is not kept"
    assert watch.changes() == []


def test_without_a_key_it_is_401(stack: Stack) -> None:
    assert httpx.post(f"{stack.url}/api/v1/lineage", json={}).status_code == 401
