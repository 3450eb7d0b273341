"""Erasing from Delta tables in a local folder: rows, statistics, log and checkpoints, read back file by file."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lily_common.erasing.digests import DigestKey, identifier
from lily_common.erasing.stoplist import ERASED, Entry, Matcher
from lily_spark.config import SparkSettings
from lily_spark.erasing.delta import ErasableTable
from lily_spark.erasing.rules import rule_of
from lily_spark.sinks.delta import Appender
from lily_spark.storage.commits import live
from lily_spark.storage.files import LakeFiles
from lily_spark.tables import EVENTS, open_table

KEY = DigestKey(bytes(range(32)))
MARKER = "postgres://shop/shop/public/marker_x1"
OTHER = "postgres://shop/shop/public/other"


@pytest.fixture
def settings(tmp_path: Path) -> SparkSettings:
    return SparkSettings(LAKE_URI=str(tmp_path / "lake"))


def _asset(**more: Any) -> Matcher:
    entry = Entry(id="e1", tenant="acme", kind="asset", digest=KEY.asset("acme", MARKER), **more)
    return Matcher(KEY, "acme", [entry])


def _row(number: int, subject: str, tenant: str = "acme", **data: Any) -> dict[str, Any]:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC) + timedelta(seconds=number)
    event = {
        "id": f"id-{number}",
        "source": "test",
        "type": "lily.asset.upserted",
        "subject": subject,
        "tenantid": tenant,
        "data": {"qualified_name": subject, "asset_type": "table", **data},
    }
    return {
        "tenant": tenant,
        "date": date(2026, 1, 2),
        "id": event["id"],
        "source": "test",
        "type": event["type"],
        "subject": subject,
        "time": at,
        "accepted_time": at,
        "lane": "priority",
        "version": f"{number:017d}.{0:020d}.test id-{number}",
        "event": orjson.dumps(event).decode(),
        "topic": "t",
        "partition": 0,
        "offset": number,
        "kafka_time": at,
    }


def _append(appender: Appender, *rows: dict[str, Any]) -> None:
    empty = dict.fromkeys(EVENTS.schema.names)
    appender.append(pa.Table.from_pylist([empty | row for row in rows], EVENTS.schema))


def _put(settings: SparkSettings) -> Any:
    def put(path: str, lines: list[str]) -> bool:
        try:
            with Path(settings.lake_table(path)).open("x") as file:
                file.write("\n".join(lines) + "\n")
        except FileExistsError:
            return False
        return True

    return put


def _erasable(settings: SparkSettings, matcher: Matcher) -> ErasableTable:
    rule = rule_of(EVENTS.name, matcher)
    return ErasableTable(settings, LakeFiles(settings), EVENTS.name, "e1", "acme", rule, _put(settings))


def _everything(settings: SparkSettings) -> str:
    """All that the table's files hold, decoded: rows and statistics of Parquet, texts of the log."""
    found = []
    for path in Path(settings.lake_table(EVENTS.name)).rglob("*"):
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            found.append(str(file.read().to_pylist()))
            found += [
                str(file.metadata.row_group(group).column(column).statistics)
                for group in range(file.num_row_groups)
                for column in range(file.metadata.num_columns)
            ]
        elif path.is_file():
            found.append(path.read_text(errors="replace"))
    return "\n".join(found)


def _erase(settings: SparkSettings, matcher: Matcher) -> int:
    table = _erasable(settings, matcher)
    rows = sum(done.rows for done in table.rewrite() if done is not None)
    for _ in table.sweep(matcher):
        pass
    return rows


def _rows(settings: SparkSettings) -> list[dict[str, Any]]:
    rows = open_table(EVENTS, settings).to_pyarrow_table().sort_by("offset").to_pylist()
    return [dict(row) for row in rows]


def test_an_asset_leaves_every_file_and_the_others_stay_as_they_were(settings: SparkSettings) -> None:
    appender = Appender(EVENTS, settings)
    for number in range(6):
        _append(appender, _row(2 * number, OTHER), _row(2 * number + 1, MARKER))
    _append(appender, _row(100, MARKER, tenant="beta"), _row(101, OTHER, parent=MARKER))
    open_table(EVENTS, settings).optimize.compact()
    open_table(EVENTS, settings).create_checkpoint()
    before = [row for row in _rows(settings) if row["subject"] == OTHER and row["tenant"] == "acme"]
    assert "marker_x1" in _everything(settings)

    assert _erase(settings, _asset()) == 7  # six events went, one names it

    after = [row for row in _rows(settings) if row["tenant"] == "acme"]
    assert [row["subject"] for row in after] == [OTHER] * 7
    assert after[:6] == before[:6]
    assert orjson.loads(after[6]["event"])["data"]["parent"] == ERASED
    beta = [row for row in _rows(settings) if row["tenant"] == "beta"]
    assert [row["subject"] for row in beta] == [MARKER]
    assert _erase(settings, _asset()) == 0


def test_nothing_is_left_in_any_file(settings: SparkSettings) -> None:
    appender = Appender(EVENTS, settings)
    for number in range(4):
        _append(appender, _row(2 * number, OTHER), _row(2 * number + 1, MARKER))
    open_table(EVENTS, settings).create_checkpoint()
    open_table(EVENTS, settings).optimize.compact()
    assert "marker_x1" in _everything(settings)

    assert _erase(settings, _asset()) == 4
    assert "marker_x1" not in _everything(settings)

    # A writer that was open all the while goes on, and readers find its rows.
    _append(appender, _row(50, OTHER))
    assert [row["offset"] for row in _rows(settings)] == [0, 2, 4, 6, 50]
    file = live(open_table(EVENTS, settings))[0]
    assert DeltaTable(settings.lake_table(EVENTS.name)).version() == open_table(EVENTS, settings).version()
    assert file["partitionValues"] == {"date": "2026-01-02", "tenant": "acme"}


def test_a_person_is_replaced_in_what_others_say(settings: SparkSettings) -> None:
    appender = Appender(EVENTS, settings)
    _append(appender, _row(1, OTHER, owners=["Jane.Doe@example.com", "bob@example.com"]), _row(2, OTHER))
    who = identifier("jane.doe@example.com")
    digest = KEY.person("acme", who.form, who.token)
    entry = Entry(id="e1", tenant="acme", kind="person", digest=digest, form=who.form, words=who.words)

    assert _erase(settings, Matcher(KEY, "acme", [entry])) == 1

    assert orjson.loads(_rows(settings)[0]["event"])["data"]["owners"] == [ERASED, "bob@example.com"]
    assert "jane.doe" not in _everything(settings).casefold()


def test_a_crash_after_any_step_ends_the_same(settings: SparkSettings) -> None:
    appender = Appender(EVENTS, settings)
    for number in range(3):
        _append(appender, _row(2 * number, OTHER), _row(2 * number + 1, MARKER))
    for steps in range(1, 6):  # each run is cut off a step later
        table = _erasable(settings, _asset())
        for work in (table.rewrite(), table.sweep(_asset())):
            for _ in zip(range(steps), work, strict=False):
                pass
    _erase(settings, _asset())
    assert "marker_x1" not in _everything(settings)
    assert [row["offset"] for row in _rows(settings)] == [0, 2, 4]
