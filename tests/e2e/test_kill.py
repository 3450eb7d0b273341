"""kill -9 of each process once, under load with clients that retry; the ledger judges what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.killing import kill_under_load
from tests.support.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(420)]


@pytest.mark.parametrize("component", ["egress", "api", "fanout", "lake"])
def test_killed_under_load_nothing_promised_is_lost(stack: Stack, tmp_path: Path, component: str) -> None:
    kill_under_load(stack, tmp_path, component, seed=20)


def test_a_lake_job_whose_jvm_outlives_it_loses_nothing(stack: Stack, tmp_path: Path) -> None:
    """Only Python is killed: its JVM may finish a batch while the next one starts."""
    kill_under_load(stack, tmp_path, "lake", seed=21, part="main")
