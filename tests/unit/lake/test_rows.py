"""Rows of an incremental table by page: what a model of the writes gives, however the pages are cut."""

from __future__ import annotations

import asyncio
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lily_api import paging
from lily_api.lake.rows import RowReader
from lily_api.lake.tables import Tables
from lily_common.config import Settings
from lily_common.errors import InvalidInputError

SCHEMA = pa.schema(
    {
        "area": pa.string(),
        "number": pa.int64(),
        "value": pa.string(),
        "__version": pa.string(),
        "__deleted": pa.bool_(),
        "__layer": pa.string(),
    }
)
Write = tuple[str | None, int, str, bool, str]


def reader(folder: Path) -> RowReader:
    needed = {"POSTGRES_URI": "postgresql://x", "KAFKA_BOOTSTRAP": "x:1", "MONGO_URI": "mongodb://x"}
    return RowReader(Tables(Settings.model_validate(needed | {"LAKE_URI": str(folder)})))


def append(folder: Path, writes: list[Write], begin: int = 0, schema: pa.Schema = SCHEMA) -> None:
    rows = [
        {
            "area": area,
            "number": number,
            "value": value,
            "__version": f"{begin + place:020d}",
            "__deleted": deleted,
            "__layer": layer,
        }
        for place, (area, number, value, deleted, layer) in enumerate(writes)
    ]
    uri = str(folder / "gold/acme/t")
    DeltaTable.create(
        uri,
        schema=schema,
        mode="ignore",
        partition_by=["__layer"],
        configuration={"lily.key": "area,number"},
        raise_if_key_not_exists=False,
    )
    write_deltalake(uri, pa.Table.from_pylist(rows, schema=schema), mode="append")


def everything(folder: Path, limit: int, at: datetime | None = None, **only: str) -> list[dict[str, Any]]:
    """All pages, the cursor written out and read in between."""
    rows: list[dict[str, Any]] = []
    after: list[Any] | None = None
    while True:
        page = asyncio.run(reader(folder).page("gold/acme/t", only, after=after, limit=limit, at=at))
        assert page is not None
        assert len(page.rows) <= limit
        rows += page.rows
        if page.after is None:
            return rows
        after = paging.decode_values(paging.encode(*page.after))


writes = st.lists(
    st.tuples(
        st.sampled_from([None, "", "a", "it's", "b\\"]),
        st.integers(-3, 3) | st.sampled_from([2**62, -(2**63)]),
        st.text("xyz", max_size=3),
        st.booleans(),
        st.sampled_from(["updates", "primary"]),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(writes, st.integers(1, 5), st.integers(0, 40))
def test_pages_hold_the_newest_of_each_key_once_and_in_order(
    given: list[Write], limit: int, cut: int
) -> None:
    model: dict[tuple[str | None, int], str | None] = {}
    for area, number, value, deleted, _layer in given:
        model[area, number] = None if deleted else value
    expected = [
        {"area": area, "number": number, "value": value}
        for (area, number), value in sorted(
            model.items(), key=lambda one: (one[0][0] is not None, one[0][0] or "", one[0][1])
        )
        if value is not None
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        append(folder, given[:cut] or given)
        if given[:cut]:
            append(folder, given[cut:], cut)
        assert everything(folder, limit) == expected
        assert everything(folder, 500, area="a") == [row for row in expected if row["area"] == "a"]


def test_many_deleted_rows_make_short_pages_and_no_gap(tmp_path: Path) -> None:
    append(tmp_path, [("a", number, "x", number % 900 != 0, "primary") for number in range(2_000)])
    assert [row["number"] for row in everything(tmp_path, 2)] == [0, 900, 1800]


def test_as_it_stood(tmp_path: Path) -> None:
    append(tmp_path, [("a", 1, "old", False, "primary")])
    time.sleep(0.05)
    between = datetime.now(UTC)
    time.sleep(0.05)
    append(tmp_path, [("a", 1, "new", False, "updates"), ("a", 2, "more", False, "updates")], 1)
    assert [row["value"] for row in everything(tmp_path, 10, between)] == ["old"]
    assert [row["value"] for row in everything(tmp_path, 10)] == ["new", "more"]
    assert everything(tmp_path, 10, between - timedelta(hours=1)) == []
    append(tmp_path, [("a", 3, "later", True, "primary")], 2)
    table = DeltaTable(str(tmp_path / "gold/acme/t"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert [row["value"] for row in everything(tmp_path, 10)] == ["new", "more"]
    with pytest.raises(InvalidInputError, match="longer ago"):
        everything(tmp_path, 10, between)


def test_a_time_before_the_log_that_is_kept(tmp_path: Path) -> None:
    append(tmp_path, [("a", 1, "old", False, "primary")])
    time.sleep(0.05)
    between = datetime.now(UTC)
    time.sleep(0.05)
    append(tmp_path, [("a", 1, "new", False, "updates")], 1)
    DeltaTable(str(tmp_path / "gold/acme/t")).create_checkpoint()
    for version in (0, 1):
        (tmp_path / f"gold/acme/t/_delta_log/{version:020}.json").unlink()
    with pytest.raises(InvalidInputError, match="as_of is"):
        everything(tmp_path, 10, between)
    assert [row["value"] for row in everything(tmp_path, 10)] == ["new"]


def test_what_is_no_cursor_of_the_table(tmp_path: Path) -> None:
    append(tmp_path, [("a", 1, "x", False, "primary")])
    for after in (["a"], ["a", "x"], ["a", 1, 2], ["a", 2**70], [None, "1 OR 1"]):
        with pytest.raises(InvalidInputError, match="cursor"):
            asyncio.run(reader(tmp_path).page("gold/acme/t", {}, after=after, limit=5))


def test_no_table_yet(tmp_path: Path) -> None:
    assert asyncio.run(reader(tmp_path).page("gold/acme/t", {}, after=None, limit=5)) is None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.date32(), [date(2026, 1, 1), date(2026, 1, 2)]),
        (
            pa.timestamp("us", "UTC"),
            [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, UTC)],
        ),
        (pa.decimal128(38, 2), [Decimal("-1.50"), Decimal("1234567890123456789.25")]),
        (pa.bool_(), [False, True]),
        (pa.float64(), [-0.5, 1e300]),
        (pa.int16(), [-7, 7]),
    ],
)
def test_keys_of_every_type_page(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    schema = SCHEMA.set(0, pa.field("area", kind))
    append(tmp_path, [(value, 1, "x", False, "primary") for value in values], schema=schema)
    rows = everything(tmp_path, 1)
    assert len(rows) == len(values)
    assert orjson.loads(orjson.dumps(rows)) == rows
