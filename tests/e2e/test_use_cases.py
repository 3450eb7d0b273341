"""docs/use-cases.md as it stands: every command of it, in one shell, on the whole stack with Kafka Connect and Trino."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.trino import with_trino

pytestmark = [pytest.mark.stack, pytest.mark.trino, pytest.mark.timeout(600)]
PAGE = Path(__file__).parents[2] / "docs" / "use-cases.md"
_DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'use_cases'"


def commands() -> str:
    """All blocks but the first, which sets up what the test has already."""
    _setup, *blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return "".join(blocks)


@pytest.fixture
def engine(worker: Stack) -> Iterator[Stack]:
    yield with_trino(worker)
    with psycopg.connect(worker.environment["POSTGRES_URI"], autocommit=True) as admin:

        def dropped() -> bool:
            try:
                admin.execute(_DROP)
                admin.execute("DROP DATABASE IF EXISTS use_cases WITH (FORCE)")
            except psycopg.errors.ObjectInUse as in_use:
                raise AssertionError(str(in_use)) from in_use
            return True

        until(dropped, "the page's database to be let go")
        admin.execute("DROP ROLE IF EXISTS use_cases")


def test_the_page_works_as_it_stands(engine: Stack, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    environment = os.environ | dict(engine.environment) | {"LILY_HOME": str(engine.config.home)}
    environment |= {"PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(tmp_path), "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-eu", "-c", commands()],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
