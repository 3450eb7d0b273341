"""Two transactional tables whose halves arrive in different windows, joined outer: what is known is never erased.

Every half an hour the changes of the last hour are taken. In the test the clock of the commits is moved instead of
waited for: a refresh sees what came since the last one and what the overlap brings again.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.integration.gold.world import SourceTable, held, refresher

from lily_spark.config import SparkSettings
from lily_spark.gold.refresh import Refresher

ORDERS = {"txn": pa.int64(), "amount": pa.int64(), "note": pa.string()}
PAYMENTS = {"txn": pa.int64(), "status": pa.string(), "fee": pa.int64()}


def declaration(read: str, **fact: Any) -> dict[str, Any]:
    side = {"read": read, "partial_update": True}
    return {
        "name": "transactions",
        "fact": {"source": "cdc.shop.public.orders", **side, **fact},
        "dimensions": [{"source": "cdc.shop.public.payments", "on": {"txn": "txn"}, "join": "full", **side}],
        "select": {
            "txn": "orders.txn",
            "amount": "orders.amount",
            "note": "orders.note",
            "status": "payments.status",
            "fee": "payments.fee",
            "net": "orders.amount - payments.fee",
        },
        "key": ["txn"],
        "interval": "30m",
        "overlap": "60m",
    }


class Halves:
    def __init__(self, spark: SparkSession, settings: SparkSettings) -> None:
        self._spark, self._settings = spark, settings
        self.orders = SourceTable(spark, settings, "orders", ["txn"], ORDERS)
        self.payments = SourceTable(spark, settings, "payments", ["txn"], PAYMENTS)

    def refresher(self, **changes: Any) -> Refresher:
        return refresher(self._spark, self._settings, declaration("window") | changes)

    def held(self, of: Refresher) -> dict[int, tuple[Any, ...]]:
        rows = held(self._spark, self._settings, of)
        return {
            row["txn"]: tuple(row[name] for name in ("amount", "note", "status", "fee", "net"))
            for row in rows
        }


@pytest.fixture
def halves(spark: SparkSession, settings: SparkSettings) -> Halves:
    return Halves(spark, settings)


# Without an overlap each refresh sees one window alone: the other half is always missing.
@pytest.mark.parametrize("overlap", ["60m", "0s"])
def test_halves_in_different_windows(halves: Halves, overlap: str) -> None:
    table = halves.refresher(overlap=overlap)
    halves.orders.write([{"txn": 1, "amount": 100, "note": "a"}, {"txn": 2, "amount": 200, "note": "b"}])
    table.refresh()
    assert halves.held(table) == {1: (100, "a", None, None, None), 2: (200, "b", None, None, None)}
    halves.payments.write([{"txn": 1, "status": "PAID", "fee": 3}, {"txn": 3, "status": "NEW", "fee": 1}])
    done = table.refresh()
    assert done["mode"] == "incremental"
    known = halves.held(table)
    assert known[1] == (100, "a", "PAID", 3, 97 if overlap == "60m" else None)
    assert known[3] == (None, None, "NEW", 1, None)
    # A real NULL of the source erases, and what is missing of the other side does not.
    halves.orders.write([{"txn": 1, "amount": 150, "note": None}, {"txn": 3, "amount": 50, "note": "c"}])
    table.refresh()
    known = halves.held(table)
    assert known[1][:4] == (150, None, "PAID", 3)
    assert known[3][:4] == (50, "c", "NEW", 1)
    assert known[2] == (200, "b", None, None, None)


def test_what_the_source_left_out_keeps(halves: Halves) -> None:
    table = halves.refresher(overlap="0s")
    halves.orders.write([{"txn": 1, "amount": 100, "note": "a long note"}])
    table.refresh()
    halves.orders.write([{"txn": 1, "amount": 120, "note": None, "__unavailable": ["note"]}])
    table.refresh()
    assert halves.held(table)[1][:2] == (120, "a long note")
    halves.orders.write([{"txn": 1, "amount": 130, "note": None}])
    table.refresh()
    assert halves.held(table)[1][:2] == (130, None)


def test_deletes(halves: Halves) -> None:
    table = halves.refresher(overlap="0s")
    halves.orders.write([{"txn": 1, "amount": 100, "note": "a"}, {"txn": 2, "amount": 200, "note": "b"}])
    halves.payments.write([{"txn": 1, "status": "PAID", "fee": 3}])
    table.refresh()
    halves.orders.write(deleted=[{"txn": 1}, {"txn": 2}])
    done = table.refresh()
    assert (done["upserted"], done["removed"]) == (1, 1)
    assert halves.held(table) == {1: (None, None, "PAID", 3, None)}
    halves.payments.write(deleted=[{"txn": 1}])
    table.refresh()
    assert halves.held(table) == {}
    halves.orders.write([{"txn": 1, "amount": 1, "note": None}])
    table.refresh()
    assert halves.held(table) == {1: (1, None, None, None, None)}


def test_deletes_that_are_kept(halves: Halves) -> None:
    table = halves.refresher(overlap="0s", **{"fact": declaration("latest", deletes="keep")["fact"]})
    halves.orders.write([{"txn": 1, "amount": 100, "note": "a"}])
    halves.payments.write([{"txn": 1, "status": "PAID", "fee": 3}])
    table.refresh()
    halves.orders.write(deleted=[{"txn": 1}])
    table.refresh()
    halves.payments.write([{"txn": 1, "status": "REFUNDED", "fee": 0}])
    table.refresh()
    assert halves.held(table)[1][:4] == (100, "a", "REFUNDED", 0)


def test_a_full_refresh_erases_nothing_and_finds_what_differs(halves: Halves) -> None:
    table = halves.refresher(overlap="0s")
    halves.orders.write([{"txn": 1, "amount": 100, "note": "a"}])
    table.refresh()
    halves.payments.write([{"txn": 1, "status": "PAID", "fee": 3}])
    table.refresh()
    told = table.check(repair=True)
    # The incremental refresh never saw both halves at once; what hangs on both is known now.
    assert (told["drift"], told["examples"][0]["columns"]) == (1, {"net": {"is": None, "should": 97}})
    assert halves.held(table)[1] == (100, "a", "PAID", 3, 97)
