"""One process killed under load, judged by the ledger: what the kill tests and the chaos runs share."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.support.journal import read_plan, replay, write_plan
from tests.support.ledger import Ledger, Verdict
from tests.support.load import LoadProcess
from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack
from tests.support.verdict import settle
from tests.support.workload import lives

#: Events a second of each of the two tenants, and for how long.
RATE, SECONDS = 60.0, 10.0


def kill_under_load(
    stack: Stack, folder: Path, component: str, seed: int, *, part: str = "all", kills: int = 1
) -> Verdict:
    """Load from clients that retry, `kill -9` at a random moment, restart by the supervisor, verdict.

    The moment is drawn from the seed between a tenth and nine tenths of the load; so is that of any further kill. The verdict
    is only given once every request is acknowledged and the stores have come to rest.
    """
    pick = random.Random(seed)
    tenants = [stack.new_tenant(), stack.new_tenant()]
    plan = folder / "plan"
    requests = [
        request
        for number, tenant in enumerate(tenants)
        for request in lives(tenant.id, seed + number, rate=RATE, seconds=SECONDS)
    ]
    total = write_plan(plan, requests)
    moments = sorted(int(total * pick.uniform(0.1, 0.9)) for _ in range(kills))
    print(f"killing {component} ({part}) with seed {seed} after {moments} of {total} requests")
    keys = {tenant.id: tenant.key for tenant in tenants}
    with ReceiverProcess(folder / "arrivals") as receiver:
        ledger = Ledger()
        for tenant in tenants:
            tenant.subscribe("hook", receiver)
            ledger.subscribe(tenant.path("hook"), tenant.id)
        with LoadProcess(stack.url, plan, folder / "journal", keys) as load:
            for moment in moments:
                until(lambda m=moment: load.acked() >= m, f"{moment} requests", pause=0.02)
                before = stack.kill(component, part=part)
                stack.wait_restarted(component, before)
            load.wait(180)
        replay(ledger, read_plan(plan), folder / "journal")
        began = time.monotonic()
        verdict = settle(stack, ledger, receiver, deadline=150)
    print(f"settled after {time.monotonic() - began:.1f} s: {verdict}")
    assert verdict.acknowledged == total
    assert (verdict.indeterminate, verdict.uncertain) == (0, 0)
    assert verdict.demanded > total / 20, "the load was to hold many changes of tags"
    return verdict
