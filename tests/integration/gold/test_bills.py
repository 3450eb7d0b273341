"""Bills and payments become bills_extended: refreshed by what changed in either, and by nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.integration.gold.world import Row, SourceTable, held, refresher

from lily_spark.config import SparkSettings
from lily_spark.gold.refresh import Refresher

DECLARATION: dict[str, Any] = {
    "name": "bills_extended",
    "fact": "cdc.shop.public.bills",
    "dimensions": [
        {
            "source": "cdc.shop.public.payments",
            "on": {"bill_id": "id"},
            "join": "left",
            "pick": "latest by updated_at",
        }
    ],
    "select": {
        "bill_id": "bills.id",
        "bill_amount": "bills.amount",
        "created_at": "bills.created_at",
        "payment_id": "payments.id",
        "payment_status": "payments.status",
        "paid_at": "payments.paid_date",
    },
    "key": ["bill_id"],
}
TIME = pa.timestamp("us", "UTC")
BILLS = {
    "id": pa.int32(),
    "created_at": TIME,
    "updated_at": TIME,
    "amount": pa.decimal128(12, 2),
    "payee_name": pa.string(),
    "payer_name": pa.string(),
}
PAYMENTS = {
    "id": pa.int32(),
    "created_at": TIME,
    "updated_at": TIME,
    "status": pa.string(),
    "paid_date": TIME,
    "bill_id": pa.int32(),
}


class Shop:
    def __init__(self, spark: SparkSession, settings: SparkSettings) -> None:
        self.spark, self.settings = spark, settings
        self.bills = SourceTable(spark, settings, "bills", ["id"], BILLS)
        self.payments = SourceTable(spark, settings, "payments", ["id"], PAYMENTS)

    def refresher(self, **changes: Any) -> Refresher:
        return refresher(self.spark, self.settings, DECLARATION | changes)

    def held(self, of: Refresher) -> dict[int, tuple[Any, Any]]:
        """bill -> (payment, its status)."""
        rows = held(self.spark, self.settings, of)
        return {row["bill_id"]: (row["payment_id"], row["payment_status"]) for row in rows}


def bill(number: int, amount: str = "10.00") -> Row:
    return {
        "id": number,
        "amount": Decimal(amount),
        "payee_name": "a",
        "payer_name": "b",
    }


def payment(number: int, of: int | None, status: str = "PENDING", hour: int = 1) -> Row:
    return {
        "id": number,
        "bill_id": of,
        "status": status,
        "updated_at": datetime(2026, 1, 1, hour, tzinfo=UTC),
    }


@pytest.fixture
def shop(spark: SparkSession, settings: SparkSettings) -> Shop:
    made = Shop(spark, settings)
    made.bills.write([bill(number) for number in range(1, 6)])
    made.payments.write([payment(11, 1), payment(14, 4), payment(15, 5)])
    return made


def test_a_payment_that_changes_without_its_bill(shop: Shop) -> None:
    table = shop.refresher()
    assert table.refresh()["reason"] == "there is no table yet"
    assert shop.held(table) == {
        1: (11, "PENDING"),
        2: (None, None),
        3: (None, None),
        4: (14, "PENDING"),
        5: (15, "PENDING"),
    }
    shop.payments.write([payment(14, 4, "PAID", hour=2)])
    done = table.refresh()
    assert (done["mode"], done["facts"], done["upserted"], done["removed"]) == ("incremental", 1, 1, 0)
    assert done["touched"] == {"bills": 0, "payments": 1}
    assert shop.held(table)[4] == (14, "PAID")
    assert table.refresh()["facts"] == 0
    assert table.check(repair=True)["drift"] == 0


@pytest.mark.parametrize("compacted", [False, True])
def test_a_payment_that_moves_refreshes_both_bills(shop: Shop, compacted: bool) -> None:
    table = shop.refresher()
    table.refresh()
    shop.payments.write([payment(14, 2, "PAID", hour=2)])
    if compacted:
        shop.payments.compact()
    done = table.refresh()
    assert (done["facts"], done["upserted"]) == (2, 2)
    assert shop.held(table) == {
        1: (11, "PENDING"),
        2: (14, "PAID"),
        3: (None, None),
        4: (None, None),
        5: (15, "PENDING"),
    }
    assert table.check(repair=True)["drift"] == 0


def test_deletes(shop: Shop) -> None:
    table = shop.refresher()
    table.refresh()
    shop.bills.write(deleted=[bill(1)])
    shop.payments.write(deleted=[payment(15, 5)])
    done = table.refresh()
    assert (done["upserted"], done["removed"]) == (1, 1)
    assert shop.held(table) == {2: (None, None), 3: (None, None), 4: (14, "PENDING"), 5: (None, None)}
    shop.bills.write([bill(1)])
    table.refresh()
    assert shop.held(table)[1] == (11, "PENDING")
    assert table.check(repair=True)["drift"] == 0
