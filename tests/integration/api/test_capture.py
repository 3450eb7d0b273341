"""Sources of change data where there is no Connect, or it is not reached, or the source is nowhere it may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.api import Api, api_settings, running_api

BODY: dict[str, Any] = {
    "kind": "debezium-postgres",
    "name": "shop",
    "config": {
        "source": "shop",
        "host": "8.8.8.8",
        "database": "shop",
        "user": "lily",
        "password": "hunter2",
        "tables": ["public.orders"],
    },
}


async def test_without_connect_it_is_refused_with_words(api: Api) -> None:
    answer = await api.client.post("/v1/connectors", json=BODY, headers=await api.admin())
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:lily:problem:connect-not-configured")
    assert "LILY_CONNECT_URL" in answer.json()["detail"]


async def test_a_connect_that_does_not_answer_is_503_and_nothing_is_kept(
    api_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    overrides = {"LILY_CONNECT_URL": "http://127.0.0.1:1", "LILY_CONNECT_SECRETS_DIR": tmp_path}
    async with running_api(api_settings(api_database, **overrides), monkeypatch) as api:
        headers = await api.admin()
        answer = await api.client.post("/v1/connectors", json=BODY, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:lily:problem:connect-unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert (await api.client.get("/v1/connectors", headers=headers)).json()["items"] == []
        assert list(tmp_path.iterdir()) == []


async def test_what_is_wrong_is_named_and_the_password_never(api: Api) -> None:
    wrong = {**BODY, "config": {**BODY["config"], "host": "a b", "tables": ["orders"]}}
    answer = await api.client.post("/v1/connectors", json=wrong, headers=await api.admin())
    assert answer.status_code == 422
    assert {error["field"] for error in answer.json()["errors"]} == {
        "body.config.host",
        "body.config.tables.0",
    }
    assert "hunter2" not in answer.text


async def test_a_password_belongs_into_the_configuration(api: Api) -> None:
    body = {**BODY, "secret": "a secret that is long enough"}
    answer = await api.client.post("/v1/connectors", json=body, headers=await api.admin())
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "body.secret"


async def test_the_catalogue_has_the_kinds_with_their_schema(api: Api) -> None:
    answer = await api.client.get("/v1/connector-kinds", headers=await api.admin())
    kinds = {item["kind"]: item for item in answer.json()["items"]}
    schema = kinds["debezium-postgres"]["config_schema"]
    assert schema["properties"]["password"]["writeOnly"]
    assert set(schema["required"]) == {"source", "host", "database", "user", "password", "tables"}
    assert "mirror" in kinds["debezium-mongodb"]["config_schema"]["properties"]
    json.dumps(schema)


async def test_the_status_of_a_connector_that_is_called(api: Api) -> None:
    headers = await api.admin()
    body = {"kind": "montecarlo", "name": "mc", "config": {"namespace": "postgres://shop-db:5432"}}
    connector = (await api.client.post("/v1/connectors", json=body, headers=headers)).json()["id"]
    answer = await api.client.get(f"/v1/connectors/{connector}/status", headers=headers)
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["tasks"]) == ("active", [])
