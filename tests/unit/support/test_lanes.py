"""What the lanes run, and their closing line."""

from __future__ import annotations

from tests.lanes import STAGES, closing


def test_the_closing_line_adds_up_all() -> None:
    lines = [
        "=== 2 failed, 1718 passed, 1 skipped, 3 warnings, 1 error in 812.10s (0:13:32) ===",
        "========================= 612 passed in 1312.10s (0:21:52) =====================",
    ]
    assert closing(lines) == "2330 passed, 3 failed, 1 skipped"


def test_no_folder_of_tests_is_left_out_or_run_twice() -> None:
    paths = [path for lanes in STAGES for lane in lanes.values() for path in lane]
    left_out = {path.removeprefix("--ignore=") for path in paths if path.startswith("--ignore=")}
    named = [path for path in paths if not path.startswith("--")]
    assert len(named) == len(set(named))
    assert left_out == {path for path in named if path.startswith("tests/integration/")}
    assert {path for path in named if path not in left_out} == {
        "tests/unit",
        "tests/contract",
        "tests/integration",
        "tests/e2e",
    }
