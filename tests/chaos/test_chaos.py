"""Each process killed at five random moments under load, judged by the ledger."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.killing import kill_under_load
from tests.support.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.chaos, pytest.mark.timeout(900)]

SEED = int(os.environ.get("LILY_CHAOS_SEED") or random.SystemRandom().randrange(10**6))
COMPONENTS = ("lake", "fanout", "egress", "api")


@pytest.mark.parametrize("round_", range(5))
@pytest.mark.parametrize("component", COMPONENTS)
def test_killed_at_a_random_moment(stack: Stack, tmp_path: Path, component: str, round_: int) -> None:
    seed = SEED + 10 * round_
    part = random.Random(seed).choice(("all", "main")) if component in ("lake", "fanout") else "all"
    print(f"LILY_CHAOS_SEED={SEED}")
    kill_under_load(stack, tmp_path, component, seed, part=part)
