"""Kafka hangs: nothing is claimed, the answer comes in time and says to come back; then all is taken."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook
from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event

from .conftest import Watch

pytestmark = pytest.mark.stack
QN = "postgres://h/db/s/t"
LINEAGE = {
    "eventTime": "2026-01-15T18:10:00Z",
    "eventType": "COMPLETE",
    "run": {"runId": "r"},
    "job": {"namespace": "n", "name": "j"},
}


@contextmanager
def hanging(stack: Stack) -> Iterator[None]:
    """The broker stands still but keeps its connections: worse than being gone."""
    pid = stack.pid("kafka")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_while_kafka_hangs_everything_is_503_in_time(stack: Stack, tenant: Tenant, watch: Watch) -> None:
    made = tenant.client.post("/v1/connectors", json={"kind": "standard-webhooks", "name": "away"}).json()
    sent = [
        event("classification.attached", {"qualified_name": QN, "tag": f"T{number}"}) for number in range(4)
    ]
    hook = json.dumps(sent[3]).encode()

    def webhook() -> httpx.Response:
        moment = datetime.now(UTC)
        headers = {
            "webhook-id": "m",
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": Webhook(made["secret"]).sign("m", moment, hook.decode()),
        }
        return httpx.post(made["webhook_url"], content=hook, headers=headers, timeout=30)

    def timed(call: Any) -> tuple[httpx.Response, float]:
        started = time.monotonic()
        return call(), time.monotonic() - started

    calls = [
        lambda: tenant.client.post("/v1/events", json=sent[0]),
        lambda: tenant.client.post("/v1/events", json=sent[1:3]),
        lambda: tenant.client.post("/v1/events", json=[sent[0], {"type": "bad"}]),
        lambda: tenant.client.post("/api/v1/lineage", json=LINEAGE),
        webhook,
    ]
    limits = [5.0, 5.0, 5.0, 5.0, 3.0]
    with hanging(stack), ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(timed, calls))
    for (answer, seconds), limit in zip(answers, limits, strict=True):
        assert answer.status_code == 503, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert int(answer.headers["retry-after"]) >= 1
        assert "accepted" not in answer.text
        assert seconds < limit

    def taken() -> bool:
        return [call().status_code for call in calls] == [202, 202, 207, 201, 200]

    until(taken, "Kafka to be back", deadline=60)
    identities = {(change["source"], change["id"]) for change in watch.changes()}
    assert {identity for _, identity in identities} >= {item["id"] for item in sent[:3]}
