"""The OpenAPI document: complete enough that a client can be written from it alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lily_api.app import create_app
from lily_common.config import Settings

DOCUMENT = create_app(Settings()).openapi()
OPEN = {"/healthz", "/readyz", "/metrics", "/oauth2/token"}


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


OPERATIONS = [pytest.param(*one, id=f"{one[1].upper()} {one[0]}") for one in _operations()]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_is_described(path: str, method: str, operation: dict[str, Any]) -> None:
    assert operation.get("summary")
    assert operation.get("tags")
    assert "503" in operation["responses"]
    for status, response in operation["responses"].items():
        if int(status) >= 400:
            assert response["content"], status
    for status in ("401", "403", "404", "413", "415") if path not in OPEN else ():
        if status in operation["responses"]:
            assert "application/problem+json" in operation["responses"][status]["content"], status


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_body_has_an_example(path: str, method: str, operation: dict[str, Any]) -> None:
    for media in operation.get("requestBody", {}).get("content", {}).values():
        schema = media.get("schema", {})
        if "$ref" in schema:
            schema = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        assert "example" in media or "examples" in media or "examples" in schema, (path, method)


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_says_who_may(path: str, method: str, operation: dict[str, Any]) -> None:
    if path in OPEN or path.startswith(("/.well-known/", "/webhooks/")):
        return
    assert operation.get("security"), "add a principal of lily_api.auth.permissions to the signature"
    assert {"401", "403"} <= set(operation["responses"])


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for _, _, operation in _operations()]
    assert len(set(ids)) == len(ids)
