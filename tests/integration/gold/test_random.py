"""Whatever changes in whatever windows: after each refresh the tables are what the sources' rows make them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.integration.gold.world import Row, SourceTable, read_without_spark, refresher

from lily_spark.config import SparkSettings
from lily_spark.upkeep.compaction import compact

FACTS, DIMENSIONS = range(1, 6), range(1, 5)
TIME = pa.timestamp("us", "UTC")
_ID = st.sampled_from([*FACTS])
_AT = st.integers(0, 3).map(lambda hours: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours))

BILLS = {"id": pa.int64(), "customer": pa.int64(), "amount": pa.int64(), "state": pa.string()}
PAYMENTS = {"id": pa.int64(), "bill": pa.int64(), "at": TIME, "sum": pa.int64()}
CUSTOMERS = {"id": pa.int64(), "region": pa.int64(), "name": pa.string()}
REGIONS = {"id": pa.int64(), "title": pa.string()}

bill = st.fixed_dictionaries(
    {
        "id": _ID,
        "customer": st.none() | st.sampled_from([*DIMENSIONS]),
        "amount": st.none() | st.integers(0, 9),
        "state": st.sampled_from(["open", "closed", None]),
    }
)
payment = st.fixed_dictionaries(
    {"id": _ID, "bill": st.none() | _ID, "at": st.none() | _AT, "sum": st.integers(0, 9)}
)
customer = st.fixed_dictionaries(
    {
        "id": st.sampled_from([*DIMENSIONS]),
        "region": st.none() | st.sampled_from([*DIMENSIONS]),
        "name": st.sampled_from(["a", "b", None]),
    }
)
region = st.fixed_dictionaries(
    {"id": st.sampled_from([*DIMENSIONS]), "title": st.sampled_from(["n", "s", None])}
)
ROWS = {"bills": bill, "payments": payment, "customers": customer, "regions": region}


@dataclass
class Step:
    """What happens between two refreshes."""

    writes: list[tuple[str, Row, bool]] = field(default_factory=list)
    compactions: set[str] = field(default_factory=set)


def _write(name: str) -> st.SearchStrategy[tuple[str, Row, bool]]:
    return st.tuples(st.just(name), ROWS[name], st.sampled_from([False, False, False, True]))


steps = st.builds(
    Step,
    st.lists(st.one_of(*map(_write, ROWS)), max_size=6),
    st.sets(st.sampled_from([*ROWS, "gold"]), max_size=2),
)
JOINED: dict[str, Any] = {
    "name": "joined",
    "fact": "cdc.shop.public.bills",
    "dimensions": [
        {"source": "cdc.shop.public.payments", "on": {"bill": "id"}, "pick": "latest by at"},
        {"source": "cdc.shop.public.customers", "on": {"id": "customer"}},
        {"source": "cdc.shop.public.regions", "on": {"id": "customers.region"}},
    ],
    "where": "bills.state IS NULL OR bills.state <> 'closed'",
    "select": {
        "bill": "bills.id",
        "amount": "bills.amount",
        "payment": "payments.id",
        "customer": "customers.name",
        "region": "regions.title",
    },
    "key": ["bill"],
}
INNER: dict[str, Any] = {
    "name": "paid",
    "fact": "cdc.shop.public.bills",
    "dimensions": [
        {
            "source": "cdc.shop.public.payments",
            "on": {"bill": "id"},
            "join": "inner",
            "aggregate": {"paid": "sum(sum)", "payments": "count(*)"},
        }
    ],
    "select": {"bill": "bills.id", "paid": "payments.paid", "payments": "payments.payments"},
    "key": ["bill"],
}
SUMMARY: dict[str, Any] = {
    "name": "by_region",
    "fact": "cdc.shop.public.bills",
    "dimensions": JOINED["dimensions"][1:],
    "select": {"region": "regions.title", "amount": "bills.amount"},
    "group_by": ["region"],
    "aggregates": {"bills": "count(*)", "amount": "sum(amount)"},
}
FULL: dict[str, Any] = {
    "name": "both",
    "fact": "cdc.shop.public.bills",
    "dimensions": [{"source": "cdc.shop.public.payments", "on": {"id": "id"}, "join": "full"}],
    "select": {"id": "bills.id", "amount": "bills.amount", "paid": "payments.sum"},
    "key": ["id"],
}
PARTIAL = FULL | {
    "name": "partial",
    "fact": {"source": "cdc.shop.public.bills", "read": "window", "partial_update": True},
    "dimensions": [FULL["dimensions"][0] | {"read": "window", "partial_update": True}],
}
State = dict[str, dict[int, Row]]


def joined(state: State) -> list[Row]:
    rows = []
    for number, one in state["bills"].items():
        if one["state"] == "closed":
            continue
        paid = [found for found in state["payments"].values() if found["bill"] == number]
        oldest = datetime.min.replace(tzinfo=UTC)
        best = max(paid, key=lambda found: (found["at"] or oldest, found["id"]), default=None)
        who = state["customers"].get(one["customer"]) or {}
        where = state["regions"].get(who.get("region")) or {}
        rows.append(
            {
                "bill": number,
                "amount": one["amount"],
                "payment": best and best["id"],
                "customer": who.get("name"),
                "region": where.get("title"),
            }
        )
    return rows


def inner(state: State) -> list[Row]:
    sums: dict[int, list[int]] = defaultdict(list)
    for one in state["payments"].values():
        if one["bill"] in state["bills"]:
            sums[one["bill"]].append(one["sum"])
    return [{"bill": number, "paid": sum(paid), "payments": len(paid)} for number, paid in sums.items()]


def summary(state: State) -> list[Row]:
    groups: dict[str | None, list[int | None]] = defaultdict(list)
    for one in state["bills"].values():
        who = state["customers"].get(one["customer"]) or {}
        groups[(state["regions"].get(who.get("region")) or {}).get("title")].append(one["amount"])
    return [
        {
            "region": title,
            "bills": len(found),
            "amount": sum(known) if (known := [a for a in found if a is not None]) else None,
        }
        for title, found in groups.items()
    ]


def full(state: State) -> list[Row]:
    keys = state["bills"].keys() | state["payments"].keys()
    return [
        {
            "id": key,
            "amount": state["bills"].get(key, {}).get("amount"),
            "paid": state["payments"].get(key, {}).get("sum"),
        }
        for key in keys
    ]


MODELS = [(JOINED, joined), (INNER, inner), (SUMMARY, summary), (FULL, full), (PARTIAL, full)]


def _ordered(rows: list[Row], key: list[str]) -> list[Row]:
    return sorted(rows, key=lambda row: [str(row[name]) for name in key])


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=st.lists(steps, min_size=3, max_size=4))
def test_incremental_is_what_a_full_computation_gives(
    spark: SparkSession, tmp_path_factory: Any, history: list[Step]
) -> None:
    folder: Path = tmp_path_factory.mktemp("lake")
    conf = SparkSettings.model_validate({"LAKE_URI": str(folder), "LILY_GOLD_BUCKETS": 2})
    columns = {"bills": BILLS, "payments": PAYMENTS, "customers": CUSTOMERS, "regions": REGIONS}
    sources = {name: SourceTable(spark, conf, name, ["id"], kinds) for name, kinds in columns.items()}
    tables = [(refresher(spark, conf, declaration), model) for declaration, model in MODELS]
    state: State = {name: {} for name in sources}
    for step in history:
        for name, row, gone in step.writes:
            sources[name].write(*(([], [row]) if gone else ([row],)))
            if gone:
                state[name].pop(row["id"], None)
            else:
                state[name][row["id"]] = row
        for name in step.compactions & sources.keys():
            sources[name].compact()
        for table, model in tables:
            table.refresh()
            assert read_without_spark(conf, table) == _ordered(model(state), table.spec.key), table.spec.name
            if "gold" in step.compactions and table.target.updates is not None:
                compact(spark, conf, table.target.updates)
    for table, _model in tables:
        assert table.check(repair=False)["drift"] == 0, table.spec.name
