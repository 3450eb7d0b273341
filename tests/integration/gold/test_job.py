"""The lake job keeps incremental tables: by interval, by command, through kill -9, each tenant's from its own sources."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.gold.job import Job, Source
from tests.integration.spark.changes import Changes
from tests.integration.spark.process import JobProcess
from tests.support.poll import until
from tests.support.stack import free_port, running_stack

from lily_local import jars

BILLS = {"id": pa.int64(), "amount": pa.int64()}
PAYMENTS = {"id": pa.int64(), "bill": pa.int64(), "status": pa.string()}
DECLARATION: dict[str, Any] = {
    "name": "bills_extended",
    "fact": "cdc.shop.public.bills",
    "dimensions": [{"source": "cdc.shop.public.payments", "on": {"bill": "id"}, "pick": "latest by id"}],
    "select": {"bill": "bills.id", "amount": "bills.amount", "status": "payments.status"},
    "key": ["bill"],
    "interval": "1s",
    "full_refresh": None,
}


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with running_stack("topics", "mongo", "s3") as stack:
        yield {
            **os.environ,
            **stack.environment,
            "LILY_SPARK_JARS": jars.paths("spark"),
            "LILY_COMPACT_SECONDS": "5",
        }


@pytest.fixture(scope="module")
def process(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobProcess]:
    folder = tmp_path_factory.mktemp("lake")
    running = JobProcess("lake", environment, folder, free_port())
    running.start()
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def job(environment: dict[str, str], process: JobProcess) -> Job:
    return Job(environment)


class Shop:
    """The sources of one new tenant, with a model of its table."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.tenant = f"t-{secrets.token_hex(4)}"
        self.bills = Source(job.settings, self.tenant, "bills", BILLS)
        self.payments = Source(job.settings, self.tenant, "payments", PAYMENTS)
        self.path = f"gold/{self.tenant}/bills_extended"

    def expected(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        newest = {one["bill"]: one for _id, one in sorted(self.payments.rows.items())}
        return {
            (number,): {
                "bill": number,
                "amount": one["amount"],
                "status": newest[number]["status"] if number in newest else None,
            }
            for number, one in self.bills.rows.items()
        }

    def wait(self) -> None:
        until(
            lambda: self.job.rows(self.path, "bill") == self.expected(),
            "the table to follow",
            deadline=240,
            pause=0.5,
        )


def test_a_table_is_kept_and_commands_are_answered(job: Job) -> None:
    shop, other = Shop(job), f"t-{secrets.token_hex(4)}"
    shop.bills.write([{"id": 1, "amount": 10}, {"id": 2, "amount": 20}])
    shop.payments.write([{"id": 7, "bill": 1, "status": "PENDING"}])
    job.declare(shop.tenant, DECLARATION)
    job.declare(other, DECLARATION)
    shop.wait()
    shop.payments.write([{"id": 7, "bill": 2, "status": "PAID"}])
    shop.wait()
    told = until(
        lambda: [one for one in job.refreshes(shop.tenant, "bills_extended") if one["detail"].get("facts")]
    )
    assert (told[-1]["status"], told[-1]["detail"]["mode"]) == ("succeeded", "incremental")
    # The other tenant declared the same table; its sources of that name do not exist.
    failed = until(lambda: job.refreshes(other, "bills_extended"))
    assert (failed[-1]["status"], "there is no table" in failed[-1]["detail"]["error"]) == ("failed", True)
    assert job.table(f"gold/{other}/bills_extended") is None
    status, detail = job.command(shop.tenant, "check_table", table="bills_extended", repair=True)
    assert (status, detail["drift"]) == ("succeeded", 0)
    status, detail = job.command(shop.tenant, "explain_table", table="bills_extended")
    assert (status, detail["sources"][1]["source"]) == ("succeeded", "payments")
    status, detail = job.command(shop.tenant, "plan_table", table="bills_extended")
    assert (status, detail["would"]) == ("succeeded", "nothing")
    assert job.command(other, "refresh_table", table="nothing")[0] == "failed"
    job.forget(shop.tenant, "bills_extended")
    assert job.command(shop.tenant, "drop_table", table="bills_extended")[0] == "succeeded"
    assert job.table(shop.path) is None


def test_kills_repeat_a_refresh_and_never_skip_one(job: Job, process: JobProcess) -> None:
    shop = Shop(job)
    chance = random.Random(11)
    shop.bills.write([{"id": number, "amount": number} for number in range(50)])
    job.declare(shop.tenant, DECLARATION)
    for _ in range(3):
        deadline = time.monotonic() + chance.uniform(0.5, 4)
        while time.monotonic() < deadline:
            shop.bills.write(
                [{"id": chance.randrange(60), "amount": chance.randrange(100)}],
                deleted=[chance.randrange(60)],
            )
            shop.payments.write(
                [{"id": chance.randrange(40), "bill": chance.randrange(60), "status": secrets.token_hex(2)}]
            )
            time.sleep(chance.uniform(0, 0.3))
        process.kill()
        process.start()
    shop.wait()
    status, detail = job.command(shop.tenant, "check_table", table="bills_extended", repair=False)
    assert (status, detail["drift"]) == ("succeeded", 0), detail


def test_the_built_in_tables(job: Job, environment: dict[str, str]) -> None:
    tenant = f"t-{secrets.token_hex(4)}"
    changes = Changes(environment["KAFKA_BOOTSTRAP"], tenant)
    base = "postgres://db:5432/shop/public"

    def event(kind: str, name: str, **data: Any) -> dict[str, Any]:
        about = "downstream" if kind.startswith("lineage") else "qualified_name"
        return {
            "specversion": "1.0",
            "id": secrets.token_hex(8),
            "source": "/test",
            "type": f"lily.{kind}",
            "data": {about: f"{base}/{name}", **data},
        }

    changes.send(
        event("asset.upserted", "orders", asset_type="table", owners=["ann"]),
        event("asset.upserted", "mart", asset_type="table"),
        event("asset.upserted", "gone", asset_type="table"),
        event("classification.attached", "orders", tag="PII"),
        event("lineage.edge.added", "mart", upstream=f"{base}/orders"),
        event("lineage.edge.added", "gone", upstream=f"{base}/orders"),
        event("incident.opened", "mart", incident_id="i1", title="late"),
    )
    path = "gold/every_tenant/asset_overview"

    def overview() -> dict[str, Any]:
        status, detail = job.command(tenant, "refresh_table", table="asset_overview")
        assert status == "succeeded", detail
        rows = job.rows(path, "tenant", "qualified_name")
        return {key[1].rsplit("/", 1)[1]: row for key, row in rows.items() if key[0] == tenant}

    rows = until(lambda: (found := overview()) and len(found) == 3 and found, "the overview", deadline=240)
    assert (rows["orders"]["owners"], rows["orders"]["tags"]) == (["ann"], ["PII"])
    assert (rows["orders"]["downstreams"], rows["mart"]["upstreams"], rows["mart"]["open_incidents"]) == (
        2,
        1,
        1,
    )
    changes.send(
        event("asset.deleted", "gone"),
        event("classification.detached", "orders", tag="PII"),
        event("incident.resolved", "mart", incident_id="i1"),
    )
    rows = until(lambda: (found := overview()) and len(found) == 2 and found, "the overview", deadline=240)
    assert rows["orders"]["tags"] == []
    assert (rows["orders"]["downstreams"], rows["mart"]["open_incidents"]) == (1, 0)
    status, detail = job.command(tenant, "refresh_table", table="tag_coverage")
    assert (status, set(detail)) == ("succeeded", {"mode", "seconds"} | ({"reason"} & set(detail)))
    coverage = job.rows("gold/every_tenant/tag_coverage", "tenant", "database")
    assert coverage[tenant, "postgres://db:5432/shop"]["assets"] == 2
    assert coverage[tenant, "postgres://db:5432/shop"]["owned_assets"] == 1
    for table in ("asset_overview", "tag_coverage"):
        status, detail = job.command(tenant, "check_table", table=table, repair=False)
        assert (status, detail["examples"]) == ("succeeded", [])
