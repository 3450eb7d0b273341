"""The benchmarks' form: percentiles, gates, what is written, and when the exit code says no."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from tests.bench import result
from tests.bench.hops import HOPS, Trace, breakdown, tail
from tests.bench.result import Gate, Row, percentiles, publish

GOOD = Gate(sent=10, received=10, lost=0, duplicates=1)


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert percentiles(range(1, 101)) == {"p50": 50, "p95": 95, "p99": 99, "max": 100}
    assert percentiles([7.0]) == {"p50": 7, "p95": 7, "p99": 7, "max": 7}
    assert percentiles([]) == {}


def test_the_file_has_the_form_of_the_issue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "RESULTS", tmp_path / "bench" / "results")
    rows = [Row("webhook-200", {"p50": 1.0}, GOOD), Row("batch-1", {"e": 2}, GOOD, {"e": 1}, 2.0)]
    assert publish("latency", rows) == 0
    written = orjson.loads((tmp_path / "bench" / "results" / "latency.json").read_bytes())
    assert written == {
        "name": "latency",
        "rows": [
            {
                "case": "webhook-200",
                "ours": {"p50": 1.0},
                "peer": None,
                "ratio": None,
                "gate": {"sent": 10, "received": 10, "lost": 0, "duplicates": 1},
            },
            {
                "case": "batch-1",
                "ours": {"e": 2},
                "peer": {"e": 1},
                "ratio": 2.0,
                "gate": {"sent": 10, "received": 10, "lost": 0, "duplicates": 1},
            },
        ],
    }


@pytest.mark.parametrize(
    ("gate", "passed"),
    [
        (GOOD, True),
        (Gate(10, 9, 1, 0), False),
        (Gate(10, 11, 0, 0), False),
        (Gate(10, 10, 0, 1, once=True), False),
    ],
)
def test_only_a_gate_fails_a_run(
    gate: Gate, passed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "RESULTS", tmp_path / "bench" / "results")
    assert gate.passed is passed
    assert publish("x", [Row("slow", {"p50": 1e9}, gate)]) == (0 if passed else 1)


def test_the_tail_names_the_hop_that_the_slowest_waited_for() -> None:
    def trace(due: float, notice: float) -> Trace:
        return Trace(
            due,
            due + 1,
            due + 2,
            due + notice,
            due + notice + 1,
            due + notice + 2,
            due + notice + 3,
            due + notice + 4,
        )

    traces = [trace(number * 10.0, 5) for number in range(990)] + [
        trace(20_000.0 + n, 400) for n in range(10)
    ]
    assert set(breakdown(traces)) == set(HOPS)
    assert breakdown(traces)["kafka_to_notice"] == {"p50": 3, "p95": 3, "p99": 3, "max": 398}
    slowest = tail(traces)
    assert next(iter(slowest["excess_ms_by_hop"].items())) == ("kafka_to_notice", 395.0)
    assert (slowest["of"], slowest["moments_apart"]) == (10, 1)
