"""Bills and payments into bills_extended: a refresh after 0.1 % of the rows have changed, beside a full refresh.

The two sources are bulk-written. What is measured begins when the changes are in the sources' updates layers: finding
the facts that they touch, computing those, and the commit that makes them visible; beside it, computing and writing
every row. Changes are at random over the whole table, the worst case: nothing can be skipped by place.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_common.gold.spec import read
from lily_spark.cdc.tables import row_table
from lily_spark.config import SparkSettings
from lily_spark.gold.refresh import Refresher
from lily_spark.gold.sources import RowSource
from lily_spark.layered import Layered
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.tables import open_table
from tests.bench.machine import Steal
from tests.bench.result import Gate, Row, percentiles

TENANT = "bench"
ROUNDS = 5
_TIME = pa.timestamp("us", "UTC")
_BILLS = {
    "id": pa.int64(),
    "created_at": _TIME,
    "updated_at": _TIME,
    "amount": pa.decimal128(12, 2),
    "payee_name": pa.string(),
    "payer_name": pa.string(),
}
_PAYMENTS = {
    "id": pa.int64(),
    "created_at": _TIME,
    "updated_at": _TIME,
    "status": pa.string(),
    "paid_date": _TIME,
    "bill_id": pa.int64(),
}
DECLARATION: dict[str, Any] = {
    "fact": "cdc.shop.public.bills",
    "dimensions": [
        {"source": "cdc.shop.public.payments", "on": {"bill_id": "id"}, "pick": "latest by updated_at"}
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
    "full_refresh": None,
}


def rows(settings: SparkSettings, spark: SparkSession, facts: int, case: str) -> Iterator[Row]:
    """One row: `facts` bills, as many payments, 0.1 % of both changed before each of ROUNDS refreshes."""
    buckets = max(4, facts // 1_000_000)
    settings = settings.model_copy(update={"gold_buckets": buckets})
    bills = _bulk(settings, spark, f"{case}.bills", _BILLS, _bill_rows(spark, facts), buckets)
    payments = _bulk(settings, spark, f"{case}.payments", _PAYMENTS, _payment_rows(spark, facts), buckets)
    ours = _refresher(settings, spark, case, "bills_extended")
    started = time.monotonic()
    ours.refresh()
    built = time.monotonic() - started
    changes = _Changes(facts)
    times, touched = [], []
    with Steal() as steal:
        for number in range(ROUNDS + 1):
            bills.append(changes.of(bills.layered, facts // 2000, _bill))
            payments.append(changes.of(payments.layered, facts // 2000, _payment))
            started = time.monotonic()
            done = ours.refresh()
            assert done["mode"] == "incremental", done
            if number:  # the first compiles what the others use
                times.append(1000 * (time.monotonic() - started))
                touched.append(done["facts"])
        peer = _refresher(settings, spark, case, "bills_in_full")
        started = time.monotonic()
        peer.refresh()
        full = time.monotonic() - started
    gate = _compared(spark, settings, ours, peer)
    found = percentiles(times)
    yield Row(
        case,
        {
            **found,
            "facts_touched": sum(touched) // len(touched),
            "first_build_s": round(built, 1),
            "steal": steal.percent,
        },
        gate,
        {"full_refresh_ms": round(1000 * full, 1)},
        round(1000 * full / found["p50"], 2),
    )


def _refresher(settings: SparkSettings, spark: SparkSession, case: str, name: str) -> Refresher:
    declared = {
        **DECLARATION,
        "name": name,
        "fact": {"source": f"cdc.shop.{_schema(case)}.bills", "as": "bills"},
        "dimensions": [
            {**DECLARATION["dimensions"][0], "source": f"cdc.shop.{_schema(case)}.payments", "as": "payments"}
        ],
    }
    return Refresher(spark.newSession(), settings, f"{TENANT}-{case}", read(declared))


def _schema(case: str) -> str:
    return case.replace("-", "_")


def _bulk(
    settings: SparkSettings,
    spark: SparkSession,
    name: str,
    columns: dict[str, pa.DataType],
    given: DataFrame,
    buckets: int,
) -> UpdatesLayer:
    """A source whose primary layer holds these rows, as compaction would have left them."""
    case, table = name.split(".")
    fields = [pa.field(column, kind) for column, kind in columns.items()]
    path = f"cdc/{TENANT}-{case}/shop/{_schema(case)}.{table}"
    layered = row_table(path, ["id"], fields, buckets=buckets)
    open_table(layered.table, settings)
    held = spark.read.format("delta").load(layered.table.uri(settings)).schema
    made = {
        "__version": F.format_string("%020d.%020d", F.col("id"), F.col("id")),
        "__deleted": F.lit(False),
        "__time": F.lit(datetime.now(UTC)),
    }
    # As log positions are: another one in each row.
    whole = given.select(
        *(
            (F.col(field.name) if field.name in columns else made.get(field.name, F.lit(None)))
            .cast(field.dataType)
            .alias(field.name)
            for field in held
        )
    )
    (
        layered.placed(whole)
        .repartition(layered.buckets, layered.bucket)
        .sortWithinPartitions("id")
        .write.format("delta")
        .mode("append")
        .save(layered.table.uri(settings))
    )
    return UpdatesLayer(settings, layered)


def _bill_rows(spark: SparkSession, facts: int) -> DataFrame:
    at = F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id"))
    return spark.range(facts).select(
        "id",
        at.alias("created_at"),
        at.alias("updated_at"),
        (F.pmod(F.xxhash64("id"), F.lit(100_000)) / 100).alias("amount"),
        F.concat(F.lit("payee "), F.pmod(F.xxhash64("id", F.lit(1)), F.lit(5000)).cast("string")).alias(
            "payee_name"
        ),
        F.concat(F.lit("payer "), F.pmod(F.xxhash64("id", F.lit(2)), F.lit(5000)).cast("string")).alias(
            "payer_name"
        ),
    )


def _payment_rows(spark: SparkSession, facts: int) -> DataFrame:
    at = F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id"))
    return spark.range(facts).select(
        "id",
        at.alias("created_at"),
        at.alias("updated_at"),
        F.lit("PENDING").alias("status"),
        F.lit(None).alias("paid_date"),
        F.pmod(F.xxhash64("id"), F.lit(facts)).alias("bill_id"),
    )


class _Changes:
    """Changed rows at random, the same ones in every run."""

    def __init__(self, facts: int) -> None:
        self._facts = facts
        self._random = random.Random(7)
        self._position = 10**12  # after all that was bulk-written

    def of(self, layered: Layered, count: int, make: Any) -> pa.Table:
        now = datetime.now(UTC)
        found = []
        for number in self._random.sample(range(self._facts), max(1, count)):
            self._position += 1
            row = make(number, now, self._random, self._facts)
            found.append(
                row
                | {
                    "__version": f"{self._position:020d}.{0:020d}",
                    "__op": "u",
                    "__deleted": False,
                    "__time": now,
                }
            )
        schema = layered.table.schema
        return pa.table({name: [row.get(name) for row in found] for name in schema.names}, schema=schema)


def _bill(number: int, now: datetime, rng: random.Random, _facts: int) -> dict[str, Any]:
    return {
        "id": number,
        "created_at": now,
        "updated_at": now,
        "amount": rng.randrange(1000),
        "payee_name": "changed",
    }


def _payment(number: int, now: datetime, rng: random.Random, facts: int) -> dict[str, Any]:
    """Paid, and for another bill than before."""
    bill = rng.randrange(facts)
    return {"id": number, "updated_at": now, "paid_date": now, "status": "PAID", "bill_id": bill}


def _compared(spark: SparkSession, settings: SparkSettings, ours: Refresher, peer: Refresher) -> Gate:
    """By a hash of each table's rows; the rows themselves are looked at when the hashes differ."""
    columns = ours.spec.columns
    tables = [_held(spark, settings, one).select(*columns) for one in (peer, ours)]
    hashed = F.xxhash64(*columns).cast("decimal(38,0)")
    sums = [table.agg(F.count("*"), F.sum(hashed)).collect()[0] for table in tables]
    lost = 0 if sums[0] == sums[1] else tables[0].exceptAll(tables[1]).count()
    return Gate(int(sums[0][0]), int(sums[1][0]), lost, 0)


def _held(spark: SparkSession, settings: SparkSettings, one: Refresher) -> DataFrame:
    source = RowSource(spark, settings, one.target.path)
    return source.rows(source.version(), one.spec.columns)
