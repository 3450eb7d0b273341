"""Whether one tenant can reach another's things, asked of every route that the OpenAPI document knows.

A new route is covered by being in the document. A new kind of path parameter needs one more maker in `Makers`; until
then its routes' tests fail.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest

METHODS = ("get", "put", "post", "patch", "delete")
#: Parameters whose things the tenant names: a stranger who puts one of that name makes a thing of its own.
NAMED_BY_THE_TENANT = frozenset({"table", "rule", "mapping", "policy"})
#: Parameters whose things live in MongoDB or the lake: made through the whole stack.
ON_THE_STACK = frozenset({"qualified_name"})


@dataclass(frozen=True)
class Operation:
    """One route and method. `body` is the document's own example of a request body."""

    method: str
    path: str
    parameters: tuple[str, ...]
    body: Any
    streams: bool

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"

    def url(self, values: dict[str, str]) -> str:
        path = self.path
        for name in self.parameters:
            path = path.replace("{" + name + "}", quote(values[name], safe=""))
        return path


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    """Every operation that asks for a credential of a tenant."""
    for path, item in document["paths"].items():
        for method in METHODS:
            operation = item.get(method)
            if operation is None or "x-lily-scope" not in operation:
                continue
            found = operation.get("parameters", [])
            names = tuple(parameter["name"] for parameter in found if parameter["in"] == "path")
            answers = operation["responses"].get("200", {}).get("content", {})
            yield Operation(method, path, names, _body(document, operation), "text/event-stream" in answers)


def with_ids(document: dict[str, Any], *, on_the_stack: bool) -> list[Operation]:
    """Operations on one thing; those whose thing needs the whole stack, or the others."""
    found = [operation for operation in operations(document) if operation.parameters]
    return [one for one in found if bool(ON_THE_STACK & set(one.parameters)) is on_the_stack]


def lists(document: dict[str, Any]) -> list[Operation]:
    found = operations(document)
    return [one for one in found if one.method == "get" and not one.parameters and not one.streams]


def _body(document: dict[str, Any], operation: dict[str, Any]) -> Any:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    if "example" in content:
        return content["example"]
    if examples := content.get("examples"):
        return next(iter(examples.values()))["value"]
    schema = content["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema.get("examples", [None])[0]


class Makers:
    """Makes one thing of each kind in a tenant. `operator` are the headers of the operator for that tenant."""

    def __init__(self, client: httpx.AsyncClient, tenant: str, operator: dict[str, str]) -> None:
        self._client = client
        self._tenant = tenant
        self._operator = operator

    async def make(self, parameter: str) -> str:
        maker = getattr(self, parameter, None)
        if maker is None:
            pytest.fail(f"tests/support/isolation.py does not know how to make a {parameter}: add a maker")
        return str(await maker())

    async def _post(self, path: str, body: Any) -> Any:
        answer = await self._client.post(path, json=body, headers=self._operator)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def tenant(self) -> str:
        return self._tenant

    async def key_id(self) -> str:
        return (await self._post("/v1/keys", {"name": "mine", "scopes": ["keys:read"]}))["id"]

    async def client_id(self) -> str:
        return (await self._post("/v1/clients", {"name": "mine", "scopes": ["keys:read"]}))["id"]

    async def connector_id(self) -> str:
        config = {"namespace": "postgres://shop-db:5432"}
        body = {"kind": "montecarlo", "name": f"mine {secrets.token_hex(4)}", "config": config}
        return (await self._post("/v1/connectors", body))["id"]

    async def subscription_id(self) -> str:
        sink = {"kind": "webhook", "url": "https://hooks.example.com/lily"}
        return (await self._post("/v1/subscriptions", {"name": "mine", "sink": sink}))["id"]

    async def delivery_id(self) -> str:
        subscription = await self.subscription_id()
        return (await self._post(f"/v1/subscriptions/{subscription}/test", None))["delivery_id"]

    async def command_id(self) -> str:
        return (await self._post("/v1/commands", {"command": "rebuild_mirror"}))["id"]

    async def erasure_id(self) -> str:
        asset = f"postgres://isolation/{secrets.token_hex(8)}"
        return (await self._post("/v1/erasures", {"asset": asset}))["id"]

    async def table(self) -> str:
        name = f"mine_{secrets.token_hex(6)}"
        body = {"fact": "cdc.shop.public.bills", "select": {"id": "bills.id"}, "key": ["id"]}
        answer = await self._client.put(f"/v1/tables/{name}", json=body, headers=self._operator)
        assert answer.status_code == 201, answer.text
        return name

    async def rule(self) -> str:
        """A propagation rule and an enrichment rule of one name."""
        name = await self._declared("propagation/rules", {"classifications": ["PII"]})
        return await self._declared(
            "enrichment/rules", {"when": {"names": ["*email*"]}, "tags": ["PII"]}, name
        )

    async def mapping(self) -> str:
        return await self._declared(
            "mappings", {"table": "lake.shop.{table}", "asset": "postgres://shop/{table}"}
        )

    async def policy(self) -> str:
        return await self._declared("policies", {"tags": ["PII"], "action": "deny"})

    async def _declared(self, path: str, body: Any, name: str = "") -> str:
        name = name or f"mine-{secrets.token_hex(6)}"
        answer = await self._client.put(f"/v1/{path}/{name}", json=body, headers=self._operator)
        assert answer.status_code == 201, answer.text
        return name

    async def qualified_name(self) -> str:
        """An asset; ready when it can be read, the lake's part of it too."""
        name = f"postgres://isolation:5432/{secrets.token_hex(6)}"
        core = {"qualified_name": name, "asset_type": "table", "description": "mine"}
        await self._post("/v1/events", [_event("asset.upserted", core)])
        deadline = time.monotonic() + 90
        path = f"/v1/assets/{quote(name, safe='')}"
        while (answer := await self._client.get(path, headers=self._operator)).status_code != 200:
            assert time.monotonic() < deadline, answer.text
            await asyncio.sleep(0.1)
        while not (answer := await self._client.get(f"{path}/history", headers=self._operator)).json()[
            "items"
        ]:
            assert time.monotonic() < deadline, answer.text
            await asyncio.sleep(0.1)
        return name


def _event(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    head = {"specversion": "1.0", "id": secrets.token_hex(8), "source": "/isolation"}
    return {**head, "type": f"lily.{kind}", "data": data}


async def check_isolated(
    client: httpx.AsyncClient,
    operation: Operation,
    makers: Makers,
    *,
    owner: dict[str, str],
    stranger: dict[str, str],
) -> None:
    """The owner's thing is there for the owner, and neither readable nor changeable for the stranger."""
    values = {name: await makers.make(name) for name in operation.parameters}
    url = operation.url(values)
    before = await client.get(url, headers=owner)
    answer = await client.request(operation.method.upper(), url, json=operation.body, headers=stranger)
    own = operation.method == "put" and NAMED_BY_THE_TENANT & set(operation.parameters)
    refused = (201, 403, 404, 422) if own else (403, 404)
    assert answer.status_code in refused, f"{answer.status_code} {answer.text}"
    assert answer.status_code == 201 or answer.headers["content-type"] == "application/problem+json"
    after = await client.get(url, headers=owner)
    assert (after.status_code, after.content) == (before.status_code, before.content)
    # Without this the stranger's 404 could come from a wrong id.
    real = await client.request(operation.method.upper(), url, json=operation.body, headers=owner)
    assert real.status_code < 300 or real.status_code in (409, 422), f"{real.status_code} {real.text}"
