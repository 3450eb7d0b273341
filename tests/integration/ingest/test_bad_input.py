"""What nobody should send, and how clearly it is answered: the status, a problem's code, nothing on the topics."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event

from .conftest import Watch

pytestmark = pytest.mark.stack
ONE, MANY, JSON = "application/cloudevents+json", "application/cloudevents-batch+json", "application/json"
GOOD = {"qualified_name": "postgres://h/db/s/t", "tag": "PII"}


def tag(**change: Any) -> dict[str, Any]:
    return event("classification.attached", GOOD | change)


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def problem(answer: httpx.Response, status: int, code: str | None = None, field: str | None = None) -> None:
    """The answer is a problem of that status, code and field, and short."""
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert told["detail"]
    assert len(answer.content) < 20_000
    if code is not None:
        assert told["type"] == f"urn:lily:problem:{code}"
    if field is not None:
        assert field in [error["field"] for error in told["errors"]]


@pytest.mark.parametrize(
    ("content", "content_type", "status", "code"),
    [
        (b"{", ONE, 400, "malformed-json"),
        (b"", ONE, 400, "malformed-json"),
        (b"\xff\xfe", JSON, 400, "malformed-json"),
        (b'{"id": NaN}', JSON, 400, "malformed-json"),
        (b"[" * 200_000, JSON, 400, "malformed-json"),
        (b'"text"', JSON, 422, "invalid-input"),
        (b"{}", MANY, 422, "invalid-input"),
        (b"[]", ONE, 422, "invalid-input"),
        (b"null", ONE, 422, "invalid-input"),
        (body(tag()), "text/plain", 415, "unsupported-media-type"),
        (body(tag()), "application/xml", 415, "unsupported-media-type"),
        (body(tag()), "", 415, "unsupported-media-type"),
        (body(tag()), f"{JSON}; charset=latin-1", 415, "unsupported-media-type"),
        (body([tag()] * 1001), MANY, 422, "batch-too-large"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bodies(
    *, tenant: Tenant, watch: Watch, content: bytes, content_type: str, status: int, code: str
) -> None:
    answer = tenant.client.post("/v1/events", content=content, headers={"content-type": content_type})
    problem(answer, status, code)
    assert watch.changes() == []


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (tag() | {"type": "lily.nobody.knows"}, "type"),
        (tag() | {"type": 5}, "type"),
        (tag() | {"id": ""}, "id"),
        (tag() | {"source": "two words"}, "source"),
        (tag() | {"specversion": "0.3"}, "specversion"),
        (tag() | {"time": "yesterday"}, "time"),
        (tag() | {"time": "1969-01-01T00:00:00Z"}, "time"),
        (tag() | {"subject": "another"}, "subject"),
        (tag() | {"sequence": "-1"}, "sequence"),
        (tag() | {"data": None}, "data"),
        (tag() | {"data_base64": "AA=="}, "data_base64"),
        (tag(qualified_name="x" * 10_240), "data.qualified_name"),
        (tag(qualified_name="a\x00b"), "data.qualified_name"),
        (tag(qualified_name="a|b"), "data.qualified_name"),
        (tag(qualified_name=" a"), "data.qualified_name"),
        (tag(qualified_name=""), "data.qualified_name"),
        (tag(tag="a\x00"), "data.tag"),
        (tag(tag="a|b"), "data.tag"),
        (tag(reason="x" * 1_000_000), "data"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_events(tenant: Tenant, watch: Watch, item: dict[str, Any], field: str) -> None:
    problem(
        tenant.client.post("/v1/events", content=body(item), headers={"content-type": ONE}), 422, field=field
    )
    assert watch.changes() == []


def test_a_lone_surrogate_is_refused(tenant: Tenant, watch: Watch) -> None:
    content = body(tag()).replace(b"PII", b"\\ud800")
    assert tenant.client.post("/v1/events", content=content, headers={"content-type": ONE}).status_code in (
        400,
        422,
    )
    assert watch.changes() == []


def test_emoji_and_any_script_in_names_are_fine(tenant: Tenant, watch: Watch) -> None:
    name = "postgres://h/db/s/表/😀 Ünïcode"
    answer = tenant.client.post("/v1/events", json=tag(qualified_name=name, tag="персональные"))
    assert answer.status_code == 202, answer.text
    (change,) = watch.changes()
    assert (change["subject"], change["data"]["tag"]) == (name, "персональные")
    assert change["_key"] == f"{tenant.id}|{name}"


def test_a_body_of_10_mb(tenant: Tenant, watch: Watch) -> None:
    large = body([tag(reason="x" * 10_000) for _ in range(1000)])
    assert len(large) > 10_000_000
    problem(
        tenant.client.post("/v1/events", content=large, headers={"content-type": MANY}),
        413,
        "payload-too-large",
    )

    def parts() -> Any:
        yield from (large[place : place + 65_536] for place in range(0, len(large), 65_536))

    try:
        chunked = tenant.client.post("/v1/events", content=parts(), headers={"content-type": MANY})
        problem(chunked, 413, "payload-too-large")
    except httpx.WriteError:
        pass  # the server hangs up on a sender that does not stop; that is an answer too
    bomb = gzip.compress(b" " * 200_000_000)
    headers = {"content-type": MANY, "content-encoding": "gzip"}
    problem(tenant.client.post("/v1/events", content=bomb, headers=headers), 413, "payload-too-large")
    assert watch.changes() == watch.raw() == []


@pytest.mark.parametrize(("encoding", "status"), [("br", 415), ("gzip", 400), ("gzip, gzip", 415)])
def test_encodings(tenant: Tenant, encoding: str, status: int) -> None:
    headers = {"content-type": JSON, "content-encoding": encoding}
    problem(tenant.client.post("/v1/events", content=body(tag()), headers=headers), status)


def test_binary_mode_headers_that_do_not_decode(tenant: Tenant) -> None:
    headers = {"content-type": JSON, "ce-id": "%FF", "ce-type": "x"}
    problem(tenant.client.post("/v1/events", content=body(GOOD), headers=headers), 400)
    twice = [("content-type", JSON), ("ce-id", "1"), ("ce-id", "2")]
    problem(tenant.client.post("/v1/events", content=body(GOOD), headers=twice), 400)


def test_one_bad_item_costs_no_good_one(tenant: Tenant, watch: Watch) -> None:
    batch = [tag(qualified_name=f"t{number}") for number in range(99)]
    batch.insert(50, tag(qualified_name="a\x00b"))
    answer = tenant.client.post("/v1/events", content=body(batch), headers={"content-type": MANY})
    assert answer.status_code == 207
    assert [item["index"] for item in answer.json()["items"] if item["status"] == "rejected"] == [50]
    assert len(watch.changes()) == 99


def test_credentials(stack: Stack, tenant: Tenant, watch: Watch) -> None:
    def refused(status: int, code: str, headers: dict[str, str]) -> None:
        answer = httpx.post(f"{stack.url}/v1/events", json=tag(), headers=headers, timeout=30)
        problem(answer, status, code)

    operator = {"Authorization": f"Bearer {stack.environment['LILY_ADMIN_KEY']}"}
    refused(401, "unauthenticated", {})
    refused(401, "invalid-credentials", {"X-API-Key": "lily_abcdefgh_" + "x" * 43})
    refused(401, "invalid-credentials", {"Authorization": "Bearer a.b.c"})
    refused(404, "unknown-tenant", operator | {"X-Lily-Tenant": "no-such-tenant"})
    refused(422, "tenant-missing", operator)
    refused(403, "wrong-tenant", {"Authorization": f"Bearer {tenant.key}", "X-Lily-Tenant": "another"})
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    made = tenant.client.post(
        "/v1/keys", json={"name": "x", "scopes": ["events:write"], "expires_at": soon}
    ).json()
    reading = tenant.client.post("/v1/keys", json={"name": "y", "scopes": ["assets:read"]}).json()
    refused(403, "missing-scope", {"Authorization": f"Bearer {reading['key']}"})
    short = {"Authorization": f"Bearer {made['key']}"}
    used = httpx.post(f"{stack.url}/v1/events", json=tag(), headers=short, timeout=30)
    assert used.status_code == 202, "good until it expires"
    deadline = datetime.now(UTC) + timedelta(seconds=10)
    while used.status_code == 202 and datetime.now(UTC) < deadline:
        used = httpx.post(f"{stack.url}/v1/events", json=tag(), headers=short, timeout=30)
    problem(used, 401, "expired-credentials")
