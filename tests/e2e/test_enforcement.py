"""Trino's questions answered by the running API: from a tag's POST through Kafka to a mask, and when that way is cut."""

from __future__ import annotations

import io
import tarfile
from typing import Any
from uuid import uuid4

import orjson
import pytest

from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event

pytestmark = pytest.mark.stack


class Engine:
    """An engine that asks as Trino's OPA plugin does, about tables under a name of their own."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.schema = f"s{uuid4().hex[:8]}"
        self.root = f"postgres://{self.schema}/shop/public"
        self.put(
            "mappings", self.schema, table=f"lake.{self.schema}.{{table}}", asset=f"{self.root}/{{table}}"
        )

    def put(self, kind: str, name: str, **body: Any) -> None:
        answer = self.tenant.client.put(f"/v1/{kind}/{name}", json=body)
        assert answer.status_code in (200, 201), answer.text

    def ask(self, endpoint: str, operation: str, *, key: str | None = None, **action: Any) -> Any:
        """The result, by the key in the URI as Trino has to."""
        identity = {"user": "ann", "groups": ["analysts"]}
        given = {"context": {"identity": identity}, "action": {"operation": operation, **action}}
        answer = self.tenant.client.post(
            f"/v1/opa/trino/{endpoint}",
            params={"key": key or self.tenant.key},
            json={"input": given},
            headers={"Authorization": ""},
        )
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        return answer.json()["result"]

    def mask(self, table: str, column: str) -> str | None:
        found = self.ask("column-mask", "GetColumnMask", resource=self.column(table, column))
        return found.get("expression")

    def may(self, operation: str, table: str, *columns: str) -> bool:
        resource = {"table": {**self.table(table), "columns": list(columns)}}
        return bool(self.ask("allow", operation, resource=resource))

    def table(self, name: str) -> dict[str, Any]:
        return {"catalogName": "lake", "schemaName": self.schema, "tableName": name}

    def column(self, table: str, name: str) -> dict[str, Any]:
        return {"column": {**self.table(table), "columnName": name, "columnType": "varchar"}}

    def tag(self, name: str, tag: str = "PII", *, attach: bool = True) -> None:
        kind = "classification.attached" if attach else "classification.detached"
        self.tenant.send(event(kind, {"qualified_name": f"{self.root}/{name}", "tag": tag}))


@pytest.fixture(scope="module")
def engine(tenant: Tenant) -> Engine:
    engine = Engine(tenant)
    engine.put("policies", "pii", tags=["PII"], action="mask", unless={"groups": ["stewards"]})
    engine.put("policies", "secret", tags=["Secret"], action="deny")
    engine.put("policies", "regional", tags=["Regional"], action="filter", filter="region = 'eu'")
    return engine


def test_a_tag_masks_and_its_removal_shows(engine: Engine) -> None:
    until(lambda: engine.may("SelectFromColumns", "people", "email"))
    assert engine.mask("people", "email") is None
    engine.tag("people/email")
    assert until(lambda: engine.mask("people", "email")) == "NULL"
    columns = [engine.column("people", name) for name in ("name", "email")]
    assert engine.ask("column-masks", "GetColumnMask", filterResources=columns) == [
        {"index": 1, "viewExpression": {"expression": "NULL"}}
    ]
    engine.tag("people/email", attach=False)
    until(lambda: engine.mask("people", "email") is None)


def test_the_ordinary_way_answers_as_the_fast_one(engine: Engine) -> None:
    """The same questions, once as they are recognised ahead of the framework, once as they are not."""
    engine.tag("both/email")
    engine.tag("both", "Regional")
    until(lambda: engine.mask("both", "email"))
    columns = [engine.column("both", name) for name in ("name", "email", "$path")]
    tables = [{"table": {**engine.table("both"), "columns": ["email"]}}]
    wrong = [{"column": {"tableName": "both"}}]
    asked: list[tuple[str, dict[str, Any], int]] = [
        ("allow", {"operation": "SelectFromColumns", "resource": tables[0]}, 200),
        ("batch", {"operation": "FilterTables", "filterResources": tables}, 200),
        ("row-filters", {"operation": "GetRowFilters", "resource": tables[0]}, 200),
        ("column-mask", {"operation": "GetColumnMask", "resource": columns[1]}, 200),
        ("column-masks", {"operation": "GetColumnMask", "filterResources": columns}, 200),
        ("column-masks", {"operation": "GetColumnMask", "filterResources": wrong}, 422),
    ]
    counted = set()
    for endpoint, action, status in asked:
        body = {"input": {"context": {"identity": {"user": "ann"}}, "action": action}}
        answers = [
            engine.tenant.client.post(
                f"/v1/opa/trino/{endpoint}",
                params={"key": engine.tenant.key},
                json=body,
                headers=spoiler,
            )
            for spoiler in ({"Authorization": ""}, {"Authorization": "", "X-Request-Id": "mine-1"})
        ]
        assert [answer.status_code for answer in answers] == [status, status], answers[0].text
        fast, ordinary = (answer.json() for answer in answers)
        if status == 200:
            assert fast == ordinary
            counted.add(answers[0].headers["x-request-id"][:16])
        assert answers[0].headers["content-type"] == answers[1].headers["content-type"]
    assert len(counted) == 1, "the fast way numbers its answers; the ordinary one gives each an id of its own"


def test_a_table_is_denied_filtered_and_not_written_to(engine: Engine) -> None:
    engine.tag("cards", "Secret")
    engine.tag("orders", "Regional")
    until(lambda: not engine.may("SelectFromColumns", "cards", "number"))
    assert not engine.may("InsertIntoTable", "orders")
    found = until(
        lambda: engine.ask("row-filters", "GetRowFilters", resource={"table": engine.table("orders")})
    )
    assert found == [{"expression": "region = 'eu'"}]
    tables = [{"table": engine.table(name)} for name in ("orders", "cards")]
    assert engine.ask("batch", "FilterTables", filterResources=tables) == [0, 1]


def test_a_deleted_asset_takes_its_tags_with_it(engine: Engine) -> None:
    engine.tag("gone/email")
    until(lambda: engine.mask("gone", "email"))
    engine.tenant.send(event("asset.deleted", {"qualified_name": f"{engine.root}/gone/email"}))
    until(lambda: engine.mask("gone", "email") is None)


def test_a_policy_that_changes_is_obeyed(engine: Engine) -> None:
    engine.tag("changing/note", "Internal")
    engine.put(
        "policies", "internal", tags=["Internal"], action="mask", mask={"kind": "constant", "constant": "-"}
    )
    assert until(lambda: engine.mask("changing", "note")) == "TRY_CAST('-' AS varchar)"
    answer = engine.tenant.client.delete("/v1/policies/internal")
    assert answer.status_code == 204
    until(lambda: engine.mask("changing", "note") is None)


def test_another_tenants_key_says_nothing_of_these(engine: Engine, other: Tenant) -> None:
    engine.tag("private/email")
    until(lambda: engine.mask("private", "email"))
    found = engine.ask(
        "column-mask", "GetColumnMask", key=other.key, resource=engine.column("private", "email")
    )
    assert found == {}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "body"),
        (b"{}", "body.input"),
        (b'{"input": {"action": {"operation": "x"}}}', "body.input.context.identity.user"),
        (b'{"input": {"context": {"identity": {"user": "u"}}}}', "body.input.action.operation"),
        (
            b'{"input": {"context": {"identity": {"user": "u"}},'
            b' "action": {"operation": "GetColumnMask", "resource": {}}}}',
            "body.input.action",
        ),
    ],
)
def test_a_question_that_is_none_is_refused(engine: Engine, body: bytes, field: str) -> None:
    answer = engine.tenant.client.post(
        "/v1/opa/trino/column-mask", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


def test_it_knows_when_it_may_be_out_of_date(engine: Engine, stack: Stack) -> None:
    """Fan-out is stopped: nothing more can be known of new tags."""
    engine.put(
        "mappings",
        f"{engine.schema}-open",
        table=f"open.{engine.schema}.{{table}}",
        asset=f"{engine.root}/{{table}}",
        when_stale="open",
    )
    engine.tag("stale/email")
    until(lambda: engine.mask("stale", "email"))
    opened = {"table": {**engine.table("stale"), "catalogName": "open", "columns": ["name"]}}
    with stack.frozen("fanout"):
        until(lambda: not engine.may("SelectFromColumns", "stale", "name"))
        assert engine.ask("allow", "SelectFromColumns", resource=opened)
        masked = engine.column("stale", "email")["column"] | {"catalogName": "open"}
        assert engine.ask("column-mask", "GetColumnMask", resource={"column": masked})
    until(lambda: engine.may("SelectFromColumns", "stale", "name"))


def test_a_restarted_api_knows_all_that_was_tagged(engine: Engine, stack: Stack) -> None:
    engine.tag("kept/email")
    until(lambda: engine.mask("kept", "email"))
    stack.wait_restarted("api", stack.kill("api"))
    # Whatever it answers, from the first answer on, it hides what is tagged.
    answers = []

    def answered() -> bool:
        answers.append(engine.may("SelectFromColumns", "kept", "name"))
        assert engine.mask("kept", "email") is not None
        return answers[-1]

    until(answered)


def test_tools_that_pull_get_a_bundle(engine: Engine) -> None:
    engine.tag("pulled/email")
    name = f"{engine.root}/pulled/email"

    def pulled() -> tuple[dict[str, Any], str]:
        answer = engine.tenant.client.get("/v1/policies/bundle")
        assert answer.status_code == 200, answer.text
        with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as archive:
            file = archive.extractfile("data.json")
            assert file is not None
            return orjson.loads(file.read())["lily"], answer.headers["etag"]

    until(lambda: pulled()[0]["tags"].get(name) == ["PII"], "the tag in the bundle")
    data, etag = pulled()
    assert "pii" in [policy["name"] for policy in data["policies"]]
    assert engine.schema in [mapping["name"] for mapping in data["mappings"]]
    again = engine.tenant.client.get("/v1/policies/bundle", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    engine.tag("pulled/email", attach=False)
    until(lambda: name not in pulled()[0]["tags"], "the tag to leave the bundle")
    changed = engine.tenant.client.get("/v1/policies/bundle", headers={"If-None-Match": etag})
    assert changed.status_code == 200
