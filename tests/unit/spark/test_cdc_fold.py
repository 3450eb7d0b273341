"""However the rows of a key are grouped, ordered and repeated on their way, they fold to what a plain replay makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_spark.cdc.tables import ADDED, latest, newest

LACKING = object()
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("n", pa.int32()),
        ("one", pa.string()),
        ("two", pa.binary()),
        *(field for field in ADDED if field.name not in ("__layer", "__bucket")),
        ("batch", pa.int32()),
        ("round", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Event:
    """`None` is NULL at the source; LACKING was not sent."""

    op: str
    n: int | None
    one: Any
    two: Any


VALUES = st.one_of(st.none(), st.sampled_from(["a", "b", "c"]))
LEFT_OUT = st.one_of(st.just(LACKING), VALUES)
WHOLE = st.builds(Event, st.just("c"), st.one_of(st.none(), st.integers(0, 9)), VALUES, VALUES)
PART = st.builds(Event, st.just("u"), st.one_of(st.none(), st.integers(0, 9)), LEFT_OUT, LEFT_OUT)
DELETE = st.just(Event("d", None, None, None))


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:
    """The events of one key in the source's order: what was deleted is whole when it comes back."""
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 7))):
        gone = not events or events[-1].op == "d"
        events.append(
            draw(WHOLE if gone and (events or draw(st.booleans())) else st.one_of(PART, PART, DELETE))
        )
    return events


@st.composite
def journeys(draw: st.DrawFn) -> list[tuple[int, Event, int, int, int]]:
    """(key, event, version, batch, round): each event at least once, in any batch of any round."""
    rows = []
    for key in range(draw(st.integers(5, 30))):
        for version, event in enumerate(draw(lives())):
            for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
                rows.append((key, event, version, draw(st.integers(0, 3)), draw(st.integers(0, 2))))
    return draw(st.permutations(rows))


def replay(events: list[Event]) -> dict[str, Any] | None:
    """What a reader sees of a key after its events in order; None: nothing. LACKING stays until a value comes."""
    state: dict[str, Any] = {"n": None, "one": LACKING, "two": LACKING}
    for event in events:
        if event.op == "d":
            state = {"n": None, "one": None, "two": None}
            continue
        state["n"] = event.n
        state |= {
            name: getattr(event, name) for name in ("one", "two") if getattr(event, name) is not LACKING
        }
    if events[-1].op == "d":
        return None
    return {name: None if value is LACKING else value for name, value in state.items()}


def _row(key: int, event: Event, version: int, batch: int, number: int) -> dict[str, Any]:
    lacking = [name for name in ("one", "two") if getattr(event, name) is LACKING]
    one, two = (None if value is LACKING else value for value in (event.one, event.two))
    return {
        "id": key,
        "n": event.n,
        "one": one,
        "two": None if two is None else two.encode(),
        "__version": f"{version:020d}",
        "__op": event.op,
        "__deleted": event.op == "d",
        "__unavailable": lacking,
        "batch": batch,
        "round": number,
    }


def _seen(rows: DataFrame) -> dict[int, dict[str, Any]]:
    return {
        row["id"]: {
            "n": row["n"],
            "one": row["one"],
            "two": None if row["two"] is None else row["two"].decode(),
        }
        for row in latest(rows, ["id"]).toArrow().to_pylist()
    }


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(journey=journeys())
def test_any_way_of_folding_ends_as_a_plain_replay(spark: SparkSession, journey: Any) -> None:
    lives: dict[int, dict[int, Event]] = {}
    for key, event, version, *_ in journey:
        lives.setdefault(key, {})[version] = event
    expected = {
        key: state
        for key, events in lives.items()
        if (state := replay([events[version] for version in sorted(events)])) is not None
    }
    sent = spark.createDataFrame(pa.Table.from_pylist([_row(*row) for row in journey], schema=SCHEMA))
    batches = newest(sent, ["id", "batch", "round"])
    compacted = newest(batches.drop("batch"), ["id", "round"])
    waiting, primary = batches.drop("batch", "round"), newest(compacted.drop("round"), ["id"])
    assert _seen(_in(sent.drop("batch", "round"), "updates")) == expected
    assert _seen(_in(compacted.drop("round"), "updates")) == expected
    assert _seen(_in(primary, "primary")) == expected
    again = _in(primary, "primary").unionByName(_in(waiting.where("id % 2 = 0"), "updates"))
    assert _seen(again) == expected


def _in(rows: DataFrame, layer: str) -> DataFrame:
    return rows.withColumn("__layer", F.lit(layer)).withColumn("__bucket", F.lit(0))


def test_what_no_row_has_stays_named(spark: SparkSession) -> None:
    event = Event("u", 1, LACKING, "x")
    rows = spark.createDataFrame(pa.Table.from_pylist([_row(1, event, 0, 0, 0)], schema=SCHEMA))
    (folded,) = newest(rows.drop("batch", "round"), ["id"]).collect()
    assert (folded["one"], folded["__unavailable"], folded["__known"]) == (None, ["one"], {})
