"""Trino's questions in the form in which its plugin asks them."""

from __future__ import annotations

from typing import Any

import pytest

from lily_api.enforcement.opa import Enforcer
from lily_common.policies.mapping import read as mapping
from lily_common.policies.model import read as policy

ASSET = "postgres://shop-db:5432/shop/public/customers"
TAGS = {f"{ASSET}/email": {"PII"}, f"{ASSET}/card": {"Secret"}, ASSET: {"Regional"}}
MAPPINGS = [
    mapping(
        {"name": "shop", "table": "lake.shop.public_{table}", "asset": ASSET.replace("customers", "{table}")}
    )
]
POLICIES = [
    policy({"name": "pii", "tags": ["PII"], "action": "mask", "unless": {"groups": ["stewards"]}}),
    policy({"name": "secret", "tags": ["Secret"], "action": "deny"}),
    policy({"name": "eu", "tags": ["Regional"], "action": "filter", "filter": "region = 'eu'"}),
]
TABLE = {"catalogName": "lake", "schemaName": "shop", "tableName": "public_customers"}


def enforcer(mappings: Any = MAPPINGS, **more: Any) -> Enforcer:
    return Enforcer(POLICIES, mappings, lambda name: frozenset(TAGS.get(name, ())), **more)


def asked(operation: str, *, user: str = "ann", groups: Any = (), **action: Any) -> dict[str, Any]:
    identity = {"user": user, "groups": list(groups)}
    context = {"identity": identity, "softwareStack": {"trinoVersion": "476"}}
    return {"context": context, "action": {"operation": operation, **action}}


def column(name: str, kind: str = "varchar(200)") -> dict[str, Any]:
    return {"column": {**TABLE, "columnName": name, "columnType": kind}}


def test_a_tagged_column_is_masked_but_for_stewards() -> None:
    ask = enforcer().mask
    assert ask(asked("GetColumnMask", resource=column("email"))) == {"expression": "NULL"}
    assert ask(asked("GetColumnMask", resource=column("email"), groups=["stewards"])) == {}
    assert ask(asked("GetColumnMask", resource=column("name"))) == {}


def test_masks_come_in_batches() -> None:
    found = enforcer().masks(asked("GetColumnMask", filterResources=[column("name"), column("email")]))
    assert found == [{"index": 1, "viewExpression": {"expression": "NULL"}}]


def test_a_denied_column_is_neither_selected_nor_listed() -> None:
    table = {"table": {**TABLE, "columns": ["name", "card"]}}
    assert not enforcer().allows(asked("SelectFromColumns", resource=table))
    assert enforcer().allowed(asked("FilterColumns", filterResources=[table])) == [0]
    assert enforcer().allows(asked("SelectFromColumns", resource={"table": {**TABLE, "columns": ["name"]}}))


def test_rows_are_filtered() -> None:
    found = enforcer().filters(asked("GetRowFilters", resource={"table": TABLE}))
    assert found == [{"expression": "region = 'eu'"}]


@pytest.mark.parametrize("operation", ["InsertIntoTable", "DropTable", "CreateViewWithSelectFromColumns"])
def test_what_would_write_back_or_lend_is_refused(operation: str) -> None:
    table = {"table": {**TABLE, "columns": ["name"]}}
    assert not enforcer().allows(asked(operation, resource=table))
    other = {"table": {**TABLE, "catalogName": "scratch"}}
    assert enforcer().allows(asked(operation, resource=other))


def test_what_masks_do_not_reach_is_for_operators() -> None:
    function = {"function": {"catalogName": "lake", "schemaName": "system", "functionName": "table_changes"}}
    schema = {"schema": {"catalogName": "lake", "schemaName": "shop"}}
    log = {"table": {**TABLE, "tableName": "public_customers$transactions", "columns": ["add"]}}
    view = {"table": {**TABLE, "tableName": "public_customers_latest"}}
    catalog = {"catalog": {"name": "aside"}}
    questions = [
        ("ExecuteFunction", function),
        ("ExecuteProcedure", function),
        ("CreateViewWithExecuteFunction", function),
        ("RenameSchema", schema),
        ("SelectFromColumns", log),
        ("CreateView", view),
        ("DropView", view),
        ("CreateCatalog", catalog),
    ]
    ours = enforcer(operators=frozenset({"lily"}))
    for operation, resource in questions:
        assert not ours.allows(asked(operation, resource=resource)), operation
        assert ours.allows(asked(operation, user="lily", resource=resource)), operation
        assert enforcer([]).allows(asked(operation, resource=resource)), operation
    elsewhere = {"function": {**function["function"], "catalogName": "scratch"}}
    assert ours.allows(asked("ExecuteFunction", resource=elsewhere))
    assert ours.allowed(asked("FilterColumns", filterResources=[log])) == []
    assert ours.filters(asked("GetRowFilters", user="lily", resource=log)) == []


def test_a_mapping_without_holes_has_inner_tables_too() -> None:
    mappings = [mapping({"name": "one", "table": "lake.shop.public_customers", "asset": ASSET})]
    log = {"table": {**TABLE, "tableName": "public_customers$partitions", "columns": ["data"]}}
    assert not enforcer(mappings).allows(asked("SelectFromColumns", resource=log))


def test_whoever_is_shown_less_is_nobody_else() -> None:
    other = {"user": {"user": "zoe", "groups": []}}
    assert not enforcer().allows(asked("ImpersonateUser", resource=other))
    assert enforcer().allows(asked("ImpersonateUser", user="zoe", resource=other))
    policies = [POLICIES[0]]
    sees_all = Enforcer(policies, MAPPINGS, lambda _: frozenset())
    assert sees_all.allows(asked("ImpersonateUser", groups=["stewards"], resource=other))


def test_letter_case_does_not_hide_a_table() -> None:
    mappings = [mapping({"name": "shop", "table": "Lake.Shop.Public_{table}", "asset": ASSET})]
    assert enforcer(mappings).mask(asked("GetColumnMask", resource=column("email"))) == {"expression": "NULL"}


def test_hidden_columns_are_masked_for_whoever_is_shown_less() -> None:
    assert enforcer().mask(asked("GetColumnMask", resource=column("$path"))) == {"expression": "NULL"}


def test_what_has_no_table_is_none_of_ours() -> None:
    assert enforcer().allows(asked("ExecuteQuery"))
    assert enforcer().allows(asked("AccessCatalog", resource={"catalog": {"name": "lake"}}))
    assert enforcer().allowed(asked("FilterCatalogs", filterResources=[{"catalog": {"name": "a"}}])) == [0]


def test_blind_it_shows_nothing_of_ours() -> None:
    blind = enforcer(blind=True)
    assert not blind.allows(asked("SelectFromColumns", resource={"table": {**TABLE, "columns": ["name"]}}))
    assert blind.mask(asked("GetColumnMask", resource=column("name"))) == {"expression": "NULL"}
    other = {"table": {**TABLE, "catalogName": "scratch", "columns": ["x"]}}
    assert blind.allows(asked("SelectFromColumns", resource=other))


def test_blind_and_open_it_obeys_the_last_tags_it_knew() -> None:
    mappings = [one.model_copy(update={"when_stale": "open"}) for one in MAPPINGS]
    blind = enforcer(mappings, blind=True)
    assert blind.allows(asked("SelectFromColumns", resource={"table": {**TABLE, "columns": ["name"]}}))
    assert blind.mask(asked("GetColumnMask", resource=column("name"))) == {}
    assert blind.mask(asked("GetColumnMask", resource=column("email"))) == {"expression": "NULL"}


def test_a_mapping_shows_its_own_rows_alone() -> None:
    mappings = [one.model_copy(update={"rows": "tenant = 'acme'"}) for one in MAPPINGS]
    found = enforcer(mappings).filters(asked("GetRowFilters", resource={"table": TABLE}))
    assert found == [{"expression": "tenant = 'acme'"}, {"expression": "region = 'eu'"}]
