"""A stack of its own, whose erasures do not wait long."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.support.databases import with_connect
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack, running_stack

_QUICK = {
    "LILY_ERASE_GRACE_SECONDS": "6",
    "LILY_RAW_TRIGGER_MS": "1000",
    "LILY_COMPACT_SECONDS": "10",
}


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _QUICK.items():
            patch.setitem(os.environ, name, value)
        with running_stack() as running:
            yield running


@pytest.fixture(scope="package")
def worker(stack: Stack) -> Stack:
    return with_connect(stack)


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    with ReceiverProcess(tmp_path_factory.mktemp("receiver") / "arrivals") as running:
        yield running
