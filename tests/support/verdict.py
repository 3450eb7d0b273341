"""The ledger's verdict on a running stack: asked again until it is good, for stores catch up in their own time."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.support.ledger import Ledger, Verdict
from tests.support.poll import DEADLINE
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack
from tests.support.stores import observe


def take_receipts(ledger: Ledger, receiver: ReceiverProcess) -> None:
    """Everything that the ledger's subscriptions have received so far, in place of what it knew."""
    names = set(ledger.subscriptions)
    ledger.receipts = [arrival.receipt() for arrival in receiver.arrivals() if arrival.name in names]


def settle(
    stack: Stack,
    ledger: Ledger,
    receiver: ReceiverProcess | None = None,
    *,
    tenants: Iterable[str] | None = None,
    deadline: float = DEADLINE,
) -> Verdict:
    """The first verdict without problems. Raises AssertionError with the last one's when the deadline passes.

    Once good, the stores are asked a second time: nothing that comes later may spoil it.
    """
    end = time.monotonic() + deadline
    good = False
    while True:
        if receiver is not None:
            take_receipts(ledger, receiver)
        verdict = ledger.judge(observe(stack.lake, stack.mirror, tenants or ledger.tenants()))
        if not verdict.problems:
            if good:
                return verdict
            good = True
        elif time.monotonic() > end or good:
            verdict.check()
        time.sleep(0.5)
