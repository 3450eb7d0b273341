"""The closing line of both lanes."""

from __future__ import annotations

from tests.lanes import LANES, closing


def test_the_closing_line_adds_up_both() -> None:
    lines = [
        "=== 2 failed, 1718 passed, 1 skipped, 3 warnings, 1 error in 812.10s (0:13:32) ===",
        "========================= 612 passed in 1312.10s (0:21:52) =====================",
    ]
    assert closing(lines) == "2330 passed, 3 failed, 1 skipped"


def test_no_folder_of_tests_is_left_out_or_run_twice() -> None:
    computing, waiting = LANES["computing"], LANES["waiting"]
    left_out = {path.removeprefix("--ignore=") for path in waiting if path.startswith("--ignore=")}
    assert left_out == {path for path in computing if path.startswith("tests/integration/")}
    assert {"tests/unit", "tests/contract"} <= set(computing)
    assert {"tests/integration", "tests/e2e"} <= set(waiting)
