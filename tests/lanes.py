"""The whole suite in two lanes at a time: what mostly computes beside what mostly waits for real servers.

`python -m tests.lanes [pytest's options]`. Each lane is a pytest of its own with its own servers on its own ports; its lines
are printed as they come, with its name before them. The exit code is that of the first lane that failed.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from types import FrameType

_COMPUTING = ("tests/integration/gold", "tests/integration/spark")
LANES = {
    "computing": ["tests/unit", "tests/contract", *_COMPUTING],
    "waiting": ["tests/integration", *(f"--ignore={folder}" for folder in _COMPUTING), "tests/e2e"],
}
_PRINTING = threading.Lock()


def main(options: list[str]) -> int:
    began = time.monotonic()
    processes = {name: _started([*paths, *options]) for name, paths in LANES.items()}

    def stop(number: int, _frame: FrameType | None) -> None:
        for process in processes.values():
            process.send_signal(signal.SIGINT)  # pytest then tears down what it started
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    last: dict[str, str] = {}
    readers = [
        threading.Thread(target=_follow, args=(name, process, last)) for name, process in processes.items()
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    codes = [process.wait() for process in processes.values()]
    print(f"both lanes: {time.monotonic() - began:.0f} s")
    print(closing(last.values()))
    return next((code for code in codes if code), 0)


def closing(lines: Iterable[str]) -> str:
    """One line for all of pytest's closing lines; an error of a fixture counts as a failure."""
    counts: Counter[str] = Counter()
    for line in lines:
        for count, what in re.findall(r"(\d+) (passed|failed|error|skipped)", line):
            counts["failed" if what == "error" else what] += int(count)
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def _started(arguments: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", *arguments]
    # A group of its own: Ctrl-C reaches it through us, once.
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def _follow(name: str, process: subprocess.Popen[str], last: dict[str, str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text := line.rstrip():
            last[name] = text
        with _PRINTING:
            print(f"{name:9} │ {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
