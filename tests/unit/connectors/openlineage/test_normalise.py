"""OpenLineage events to changes: as the Spark listener and the Python client send them, and as nobody should."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lily_common.envelope import accept
from lily_common.errors import InvalidInputError, LilyError
from lily_common.state import assemble, fold
from lily_connectors.openlineage.changes import MAX_CHANGES
from lily_connectors.openlineage.normalise import normalise

FIXTURES = Path(__file__).parent / "fixtures"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
PG = "postgres://shop-db:5432"


def spark(case: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((FIXTURES / f"spark__{case}.json").read_text())
    return event


def event(**more: Any) -> dict[str, Any]:
    return {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-15T18:10:00Z",
        "producer": "https://example.com/etl",
        "run": {"runId": "r1"},
        "job": {"namespace": "shop", "name": "orders_daily"},
        **more,
    }


def dataset(name: str, **facets: Any) -> dict[str, Any]:
    return {"namespace": PG, "name": name, "facets": facets}


def columns(*names: str, **more: Any) -> dict[str, Any]:
    return {"fields": [{"name": name, "type": "text", **more} for name in names]}


def accepted(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """The envelopes of these OpenLineage events as they are on Kafka."""
    return [json.loads(accept("acme", change, NOW).value) for item in events for change in normalise(item)]


def asset(name: str, *events: dict[str, Any]) -> Any:
    """The state of one asset after these events."""
    return assemble(fold(change for change in accepted(*events) if change["subject"] == name))


def edges(item: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (change["data"]["upstream"], change["data"]["downstream"], change["data"]["kind"])
        for change in normalise(item)
        if change["type"] == "lily.lineage.edge.added"
    }


def test_spark_write_becomes_assets_columns_and_lineage() -> None:
    complete = spark("write_complete")
    table = asset("file:///data/shop/marts/customer_totals", complete)
    assert table.core["asset_type"] == "table"
    assert table.fields["openlineage"]["outputStatistics"]["rowCount"] == 1
    column = asset("file:///data/shop/marts/customer_totals/email", complete)
    assert column.core == {"asset_type": "column", "data_type": "string", "ordinal": 1}
    (edge,) = column.edges
    assert edge["upstream"] == "file:///data/shop/raw/customers/email"
    assert edge["via"] == "job://shop/shop_marts.adaptive_spark_plan.marts_customer_totals"
    assert edge["transformation"] == "DIRECT/IDENTITY"
    masked = asset("file:///data/shop/marts/customer_totals/name_hash", complete).edges[0]
    assert masked["masking"] is True
    upstream = {edge["upstream"] for edge in table.edges if edge["kind"] == "table"}
    assert upstream == {"file:///data/shop/raw/customers", "file:///data/shop/raw/orders"}


def test_spark_job_hangs_below_its_application() -> None:
    events = [spark("application_start"), spark("write_start"), spark("write_complete")]
    job = asset("job://shop/shop_marts.adaptive_spark_plan.marts_customer_totals", *events)
    assert job.core["parent"] == "job://shop/shop_marts"
    assert job.fields["run"]["state"] == "COMPLETE"
    assert job.fields["openlineage"]["jobType"]["integration"] == "SPARK"
    assert asset("job://shop/shop_marts", *events).fields["run"]["state"] == "START"


def test_columns_are_bulk_and_all_else_is_priority() -> None:
    lanes = {
        (change["lane"], change["data"].get("asset_type")) for change in accepted(spark("write_complete"))
    }
    assert {kind for lane, kind in lanes if lane == "bulk"} == {"column"}
    assert {kind for lane, kind in lanes if lane == "priority"} == {"table", "job", None}


def test_the_same_event_makes_the_same_ids_and_another_others() -> None:
    first, second = normalise(spark("write_complete")), normalise(spark("write_complete"))
    assert first == second
    ids = [change["id"] for change in first]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {change["id"] for change in normalise(spark("write_start"))}


def test_an_event_that_says_less_clears_nothing() -> None:
    full = event(
        eventType="START",
        outputs=[dataset("shop.marts.t", schema=columns("a", "b"), documentation={"description": "totals"})],
    )
    bare = event(eventTime="2026-01-15T18:20:00Z", outputs=[dataset("shop.marts.t")])
    other = event(eventTime="2026-01-15T18:30:00Z", outputs=[dataset("shop.marts.t", schema=columns("a"))])
    table = asset(f"{PG}/shop/marts/t", full, bare, other)
    assert table.core["asset_type"] == "table"
    assert table.fields["openlineage"]["documentation"] == {"description": "totals"}
    assert asset(f"{PG}/shop/marts/t/b", full, bare, other).core["data_type"] == "text"


def test_what_people_wrote_stays() -> None:
    written = {
        "specversion": "1.0",
        "id": "1",
        "source": "/ui",
        "type": "lily.description.changed",
        "time": "2026-01-01T00:00:00Z",
        "data": {"qualified_name": f"{PG}/shop/marts/t", "description": "by hand"},
    }
    told = event(outputs=[dataset("shop.marts.t", documentation={"description": "by dbt"})])
    changes = [json.loads(accept("acme", written, NOW).value), *accepted(told)]
    table = assemble(fold(change for change in changes if change["subject"] == f"{PG}/shop/marts/t"))
    assert table.core["description"] == "by hand"
    assert table.fields["openlineage"]["documentation"]["description"] == "by dbt"


def test_start_and_complete_of_one_moment_end_as_complete() -> None:
    start, complete = event(eventType="START"), event()
    for order in ([start, complete], [complete, start]):
        assert asset("job://shop/orders_daily", *order).fields["run"]["state"] == "COMPLETE"


def test_nested_fields_are_fields_of_their_column() -> None:
    schema = {
        "fields": [{"name": "address", "type": "struct", "fields": [{"name": "zip", "type": "string"}]}]
    }
    nested = asset(f"{PG}/shop/public/c/address/zip", event(inputs=[dataset("shop.public.c", schema=schema)]))
    assert nested.core["asset_type"] == "field"


def test_indirect_column_lineage_goes_into_the_table() -> None:
    assert (
        "file:///data/shop/raw/orders/amount",
        "file:///data/shop/marts/customer_totals",
        "column",
    ) in edges(spark("write_complete"))


@pytest.mark.parametrize("state", ["FAIL", "ABORT"])
def test_a_failed_run_asserts_no_lineage_and_drops_nothing(state: str) -> None:
    failed = event(
        eventType=state,
        inputs=[dataset("a.b.c")],
        outputs=[dataset("a.b.d", lifecycleStateChange={"lifecycleStateChange": "DROP"})],
    )
    failed["run"]["facets"] = {"errorMessage": {"message": "disk full", "programmingLanguage": "JAVA"}}
    assert edges(failed) == set()
    assert not any(change["type"] == "lily.asset.deleted" for change in normalise(failed))
    job = asset("job://shop/orders_daily", failed)
    assert (job.fields["run"]["state"], job.fields["run"]["error"]) == (state, "disk full")


def test_a_dropped_output_is_deleted_and_gets_no_edges() -> None:
    dropping = event(
        inputs=[dataset("a.b.c")],
        outputs=[
            dataset("a.b.d", lifecycleStateChange={"lifecycleStateChange": "DROP"}, schema=columns("x"))
        ],
    )
    assert asset(f"{PG}/a/b/d", dropping).deleted
    assert edges(dropping) == set()


def test_a_table_that_is_read_and_written_has_no_edge_to_itself() -> None:
    both = event(inputs=[dataset("a.b.c"), dataset("a.b.d")], outputs=[dataset("a.b.c")])
    assert edges(both) == {(f"{PG}/a/b/d", f"{PG}/a/b/c", "table")}


def test_dataset_and_job_events() -> None:
    of_dataset = {"eventTime": "2026-01-15T18:10:00Z", "dataset": dataset("a.b.c", schema=columns("x"))}
    assert [change["data"]["qualified_name"] for change in normalise(of_dataset)] == [
        f"{PG}/a/b/c",
        f"{PG}/a/b/c/x",
    ]
    of_job = event(inputs=[dataset("a.b.c")], outputs=[dataset("a.b.d")])
    del of_job["run"], of_job["eventType"]
    assert edges(of_job) == {(f"{PG}/a/b/c", f"{PG}/a/b/d", "table")}


def test_asset_types_of_views_topics_and_symlinks() -> None:
    view = dataset("a.b.v", datasetType={"datasetType": "VIEW"})
    topic = {"namespace": "kafka://b:9092", "name": "orders.v1"}
    linked = {
        "namespace": "s3://lake",
        "name": "orders",
        "facets": {"symlinks": {"identifiers": [{"namespace": PG, "name": "a.b.orders", "type": "TABLE"}]}},
    }
    told = event(inputs=[view, topic, linked])
    assert asset(f"{PG}/a/b/v", told).core["asset_type"] == "view"
    assert asset("kafka://b:9092/orders.v1", told).core["asset_type"] == "topic"
    assert asset("s3://lake/orders", told).fields["openlineage"]["symlinks"] == [f"{PG}/a/b/orders"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"eventTime": "yesterday"}, "eventTime"),
        ({"eventType": "DONE"}, "eventType"),
        ({"job": {}}, "job.namespace"),
        ({"job": None}, "job.namespace"),
        ({"run": {}}, "run.runId"),
        ({"run": None}, "run.runId"),
        ({"inputs": {}}, "inputs"),
        ({"inputs": [{"namespace": "x"}]}, "inputs.0.name"),
        ({"outputs": [5]}, "outputs.0.namespace"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        normalise(event(**change))
    assert field in [error.field for error in refused.value.errors]


def test_a_time_without_offset_is_utc() -> None:
    assert normalise(event(eventTime="2026-01-15T18:10:00"))[0]["time"] == "2026-01-15T18:10:00Z"


def test_an_event_that_explodes_is_refused() -> None:
    many = [dataset(f"a.b.t{number}") for number in range(200)]
    with pytest.raises(InvalidInputError) as refused:
        normalise(event(inputs=many, outputs=[dataset(f"a.b.o{number}") for number in range(200)]))
    assert refused.value.code == "too-many-changes"
    assert str(MAX_CHANGES) in refused.value.detail


def test_a_large_facet_says_only_how_large_it_was() -> None:
    told = event(inputs=[dataset("a.b.c", huge={"text": "x" * 100_000})])
    assert asset(f"{PG}/a/b/c", told).fields["openlineage"]["huge"]["omitted_bytes"] > 100_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FACETS = st.dictionaries(
    st.sampled_from(["schema", "columnLineage", "symlinks", "lifecycleStateChange", "datasetType", "x"]),
    st.dictionaries(st.sampled_from(["fields", "dataset", "identifiers", "a"]), JSON, max_size=2) | JSON,
    max_size=3,
)
DATASETS = st.fixed_dictionaries(
    {"namespace": st.text(min_size=1, max_size=8), "name": st.text(min_size=1, max_size=8)},
    optional={"facets": FACETS | JSON, "inputFacets": JSON},
)


@settings(max_examples=300)
@given(
    st.dictionaries(st.sampled_from(["eventTime", "eventType", "run", "job", "inputs", "dataset"]), JSON)
    | st.builds(
        event,
        inputs=st.lists(DATASETS, max_size=2),
        outputs=st.lists(DATASETS | JSON, max_size=2),
        run=st.fixed_dictionaries({"runId": st.text(min_size=1, max_size=5)}, optional={"facets": JSON}),
    )
    | JSON
)
def test_any_json_is_accepted_or_refused_by_name(item: Any) -> None:
    try:
        changes = normalise(item)
    except LilyError as refused:
        assert refused.status == 422
        return
    for change in changes:
        accept("acme", change, NOW)
