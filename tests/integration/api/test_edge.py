"""What comes before and around every route: error form, request id, body limits, overload, hostile texts."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fastapi import APIRouter, Request
from tests.support.api import Api, api_settings, running_api

from lily_api import app as app_module
from lily_api.bodies import read_body

LIMIT = 10_000
router = APIRouter(prefix="/test")
_gate = asyncio.Event()


@router.post("/body")
async def body(request: Request) -> dict[str, int]:
    return {"size": len(await read_body(request))}


@router.get("/wait")
async def wait() -> None:
    await _gate.wait()


@router.get("/fail")
async def fail() -> None:
    raise RuntimeError("secret detail")


@pytest.fixture
async def edge(api_database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """The API with three routes of the test's own, small limits."""
    monkeypatch.setattr(app_module, "ROUTERS", [*app_module.ROUTERS, router])
    settings = api_settings(api_database, LILY_MAX_BODY_BYTES=LIMIT, LILY_MAX_CONCURRENCY=2)
    async with running_api(settings, monkeypatch) as running:
        yield running


def _is_problem(answer, status: int, code: str | None = None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert {"type", "title", "detail", "instance"} <= set(problem)
    if code is not None:
        assert problem["type"] == f"urn:lily:problem:{code}"


async def test_unknown_paths_and_methods(api: Api) -> None:
    answer = await api.client.get("/v1/nothing/🌸")
    _is_problem(answer, 404, "not-found")
    assert answer.json()["instance"] == "/v1/nothing/%F0%9F%8C%B8"
    answer = await api.client.delete("/v1/tenants")
    _is_problem(answer, 405, "method-not-allowed")
    assert "GET" in answer.headers["allow"]


async def test_the_request_id_is_echoed_or_made(api: Api) -> None:
    echoed = await api.client.get("/healthz", headers={"X-Request-Id": "abc-1"})
    assert echoed.headers["x-request-id"] == "abc-1"
    for hostile in ("a b", "x" * 200, "a\nb", "é"):
        made = await api.client.get("/healthz", headers={"X-Request-Id": hostile.encode()})
        assert len(made.headers["x-request-id"]) == 24


async def test_a_defect_tells_the_caller_nothing(edge: Api) -> None:
    answer = await edge.client.get("/test/fail")
    _is_problem(answer, 500, "internal-error")
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"]


async def test_broken_and_foreign_bodies(api: Api) -> None:
    headers = api.operator()
    for content, content_type, status, code in (
        (b'{"id": ', "application/json", 400, "malformed-json"),
        (b"\xff\xfe\x00", "application/json", 400, None),
        (b'{"id": "abc"}', "text/plain", 415, "unsupported-media-type"),
        (b"id=abc", "application/x-www-form-urlencoded", 415, "unsupported-media-type"),
        (b"[]", "application/json", 422, "invalid-input"),
        (b"", "application/json", 422, "invalid-input"),
        (b'{"id": "abc", "nmae": "typo"}', "application/json", 422, "invalid-input"),
        (b"[" * 9000, "application/json", 400, None),
        (b'{"id": "abc", "name": "\\ud800"}', "application/json", 422, "invalid-input"),
    ):
        answer = await api.client.post(
            "/v1/tenants", content=content, headers=headers | {"Content-Type": content_type}
        )
        _is_problem(answer, status, code)
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = await api.client.post(
        "/v1/tenants", content=gzip.compress(b'{"id": "abc"}'), headers=headers | packed
    )
    _is_problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "name", ["🌸", "a\x00b", "x" * 10_240, "\u202eevil", "\ud83d", "a\nb", "", " ", "ﷺ" * 200]
)
async def test_hostile_names_are_stored_or_refused(api: Api, name: str) -> None:
    tenant = await api.tenant()
    headers = api.operator(tenant) | {"Content-Type": "application/json"}
    for path, more in (
        ("/v1/keys", {"scopes": ["keys:read"]}),
        ("/v1/clients", {"scopes": ["keys:read"]}),
        ("/v1/tenants", {"id": "never"}),
    ):
        if path == "/v1/tenants" and name in ("🌸", "\u202eevil", "ﷺ" * 200):
            continue
        answer = await api.client.post(path, content=json.dumps({"name": name, **more}), headers=headers)
        assert answer.status_code in (201, 422), answer.text
        if answer.status_code == 201:
            assert answer.json()["name"] == name


@pytest.mark.parametrize(
    "path",
    [
        "/v1/keys/%00",
        "/v1/keys/%ff%fe",
        "/v1/keys/" + "x" * 10_240,
        "/v1/keys?cursor=%00",
        "/v1/keys?cursor=WyJhIiwiYiJd",
        "/v1/keys?cursor=WyIyMDI0LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwiXHUwMDAwIl0",
        "/v1/keys?limit=99999999999999999999",
        "/v1/audit?target=%00",
        "/v1/audit?cursor=WzFlMzBd",
        "/v1/audit?cursor=Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OV0",
        "/v1/audit?actor=%F0%9F%8C%B8",
        "/v1/tenants?cursor=WyJcdTAwMDAiXQ",
        "/v1/tenants/%00",
    ],
)
async def test_hostile_paths_and_queries(api: Api, path: str) -> None:
    tenant = await api.tenant()
    answer = await api.client.get(path, headers=api.operator(tenant))
    assert answer.status_code in (200, 404, 422), answer.text


async def test_bodies_above_the_limit(edge: Api) -> None:
    assert (await edge.client.post("/test/body", content=b"x" * LIMIT)).json() == {"size": LIMIT}
    _is_problem(await edge.client.post("/test/body", content=b"x" * (LIMIT + 1)), 413, "payload-too-large")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    _is_problem(await edge.client.post("/test/body", content=endless()), 413, "payload-too-large")
    headers = edge.operator() | {"Content-Type": "application/json"}
    _is_problem(await edge.client.post("/v1/tenants", content=endless(), headers=headers), 413)
    bad = {"Content-Length": "nonsense"}
    _is_problem(await edge.client.post("/test/body", content=b"", headers=bad), 400)


async def test_compressed_bodies(edge: Api) -> None:
    async def post(content: bytes, encoding: str):
        return await edge.client.post("/test/body", content=content, headers={"Content-Encoding": encoding})

    assert (await post(gzip.compress(b"x" * 500), "gzip")).json() == {"size": 500}
    assert (await post(b"x" * 500, "identity")).json() == {"size": 500}
    bomb = gzip.compress(b"\0" * 5_000_000)
    assert len(bomb) < LIMIT
    _is_problem(await post(bomb, "gzip"), 413, "payload-too-large")
    _is_problem(await post(b"x" * 500, "gzip"), 400, "malformed-body")
    _is_problem(await post(b"x" * 500, "br"), 415, "unsupported-media-type")
    _is_problem(await post(gzip.compress(b"x"), "gzip, gzip"), 415, "unsupported-media-type")


async def test_more_requests_than_places(edge: Api) -> None:
    _gate.clear()
    waiting = [asyncio.create_task(edge.client.get("/test/wait")) for _ in range(2)]
    await asyncio.sleep(0.05)
    refused = await edge.client.get("/v1/keys", headers=edge.operator("abc"))
    _is_problem(refused, 503, "overloaded")
    assert refused.headers["retry-after"] == "1"
    assert (await edge.client.get("/healthz")).status_code == 200
    _gate.set()
    assert {(await task).status_code for task in waiting} == {200}
    assert (await edge.client.get("/v1/keys", headers=edge.operator("abc"))).status_code == 404


async def test_readiness_names_what_is_down(api: Api) -> None:
    answer = await api.client.get("/readyz")
    assert answer.status_code == 503
    checks = answer.json()["checks"]
    assert (checks["postgresql"], checks["kafka"]) == ("ok", "ok")
    assert checks["mongodb"] != "ok"


async def test_metrics_count_by_route_template(api: Api) -> None:
    tenant = await api.tenant()
    await api.client.get("/v1/keys/key_x", headers=api.operator(tenant))
    await api.client.get("/v1/nothing")
    text = (await api.client.get("/metrics")).text
    assert 'lily_http_requests_total{method="GET",route="/v1/keys/{key_id}",status="404"}' in text
    assert 'route="unmatched"' in text
    assert tenant not in text


async def test_a_database_that_is_gone_is_told_as_503(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def nothing(_services):
        yield

    monkeypatch.setattr(app_module, "BACKGROUND", [nothing])
    settings = api_settings("postgresql://nobody@127.0.0.1:1/none")
    async with running_api(settings, monkeypatch) as running:
        answer = await running.client.get("/v1/keys", headers={"X-API-Key": "lily_abcdefgh_x"})
        _is_problem(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
