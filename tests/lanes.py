"""The whole suite: first what computes beside what waits for servers, in two lanes, then the whole stack by itself.

`python -m tests.lanes [pytest's options]`. Each lane is a pytest of its own with its own servers on its own ports; its lines
are printed as they come, with its name before them. What kills and restarts Spark jobs has the machine to itself: two of
those at a time take longer than their deadlines. The exit code is that of the first lane that failed.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import FrameType

_COMPUTING = "tests/integration/gold"
_ALONE = ("tests/integration/spark", "tests/integration/connect")
#: One after the other; the lanes of each at the same time.
STAGES = (
    {
        "computing": ["tests/unit", "tests/contract", _COMPUTING],
        "waiting": ["tests/integration", *(f"--ignore={folder}" for folder in (_COMPUTING, *_ALONE))],
    },
    {"alone": [*_ALONE, "tests/e2e"]},
)
_PRINTING = threading.Lock()
#: What libraries print as the process ends comes after it.
_CLOSING = re.compile(r"=+ .* in [0-9.]+s\b.*=+$")


def main(options: list[str]) -> int:
    began = time.monotonic()
    codes: list[int] = []
    last: dict[str, str] = {}
    for lanes in STAGES:
        codes += _run({name: [*paths, *options] for name, paths in lanes.items()}, last)
    print(f"{time.monotonic() - began:.0f} s")
    print(closing(last.values()))
    return next((code for code in codes if code), 0)


def _run(lanes: Mapping[str, list[str]], last: dict[str, str]) -> list[int]:
    """The lanes' exit codes; `last` gets pytest's closing line of each."""
    processes = {name: _started(arguments) for name, arguments in lanes.items()}

    def stop(number: int, _frame: FrameType | None) -> None:
        for process in processes.values():
            process.send_signal(signal.SIGINT)  # pytest then tears down what it started
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    readers = [
        threading.Thread(target=_follow, args=(name, process, last)) for name, process in processes.items()
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return [process.wait() for process in processes.values()]


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
        text = line.rstrip()
        if _CLOSING.match(text):
            last[name] = text
        with _PRINTING:
            print(f"{name:9} │ {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
