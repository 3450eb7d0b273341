"""Any order and repetition of arrival ends in the same state: through HTTP and both lanes into the real stores.

One example is a whole estate: many assets' histories at once, sent to three tenants, each in an order and with
repetitions of its own. What the stores hold must be the same for all three, and what the ledger's own fold says. Examples are few
and large, because the stores' latency is paid once for each and not once for each asset.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.stack import Stack
from tests.support.tenant import Tenant
from tests.support.verdict import settle

pytestmark = pytest.mark.stack

PERMUTATIONS = 3
LARGEST_BATCH = 12
SENDERS = 4

words = st.sampled_from(["a", "b", "ü", "snow ☃", "1.5", ""])
values = st.one_of(words, st.integers(-5, 5), st.none(), st.lists(words, max_size=2))
fields = st.sampled_from(["name", "description", "owners", "dotted.name", "$dollar"])
aspects = st.sampled_from(["core", "core", "quality"])
kinds = st.sampled_from(["table", "column", "bi_field"])


@st.composite
def change(draw: st.DrawFn) -> dict[str, Any]:
    """Type, payload without its asset, second, sequence and source of one event."""
    data: dict[str, Any]
    kind = draw(
        st.sampled_from(
            ["asset.upserted"] * 3
            + ["asset.patched"] * 4
            + ["classification.attached", "classification.detached"] * 3
            + ["asset.deleted", "incident.opened", "incident.resolved"]
            + ["lineage.edge.added", "lineage.edge.removed", "owner.changed", "description.changed"]
        )
    )
    match kind:
        case "asset.upserted":
            data = {"asset_type": draw(kinds), "aspect": draw(aspects), "extra": draw(values)}
            data |= draw(st.fixed_dictionaries({}, optional={"name": words, "description": words}))
        case "asset.patched":
            data = {"aspect": draw(aspects), "set": draw(st.dictionaries(fields, values, max_size=3))}
            data |= draw(
                st.fixed_dictionaries(
                    {}, optional={"asset_type": kinds, "unset": st.lists(fields, max_size=2, unique=True)}
                )
            )
        case "classification.attached" | "classification.detached":
            data = {
                "tag": draw(st.sampled_from(["PII", "GDPR"])),
                "origin": draw(st.sampled_from(["direct", "x|y"])),
            }
        case "incident.opened" | "incident.resolved":
            data = {"incident_id": draw(st.sampled_from(["i1", "i|2"])), "title": draw(words)}
        case "lineage.edge.added" | "lineage.edge.removed":
            data = {"upstream": draw(st.sampled_from(["up://a", "up://b"]))}
            data |= draw(st.fixed_dictionaries({}, optional={"via": st.just("job://j")}))
        case "owner.changed":
            data = {"owners": draw(st.lists(words, max_size=2))}
        case "description.changed":
            data = {"description": draw(st.one_of(words, st.none()))}
        case _:
            data = {}
    return {
        "type": kind,
        "data": data,
        "second": draw(st.integers(0, 4)),
        "sequence": draw(st.sampled_from([None, None, "1", "2", "10"])),
        "source": draw(st.sampled_from(["/a", "/b"])),
    }


histories = st.lists(st.lists(change(), min_size=2, max_size=8), min_size=25, max_size=40)


def events_of(history: list[dict[str, Any]], asset: str, start: datetime) -> list[dict[str, Any]]:
    """CloudEvents of one asset; times, sequences and sources collide on purpose, so that each part of the rule decides."""
    events = []
    for number, item in enumerate(history):
        edge = item["type"].startswith("lineage")
        subject = {"downstream": asset} if edge else {"qualified_name": asset}
        made = {
            "specversion": "1.0",
            "id": f"{asset}#{number}",
            "source": item["source"],
            "type": f"lily.{item['type']}",
            "time": (start + timedelta(seconds=item["second"])).isoformat(),
            "data": {**subject, **item["data"]},
        }
        events.append(made | ({"sequence": item["sequence"]} if item["sequence"] else {}))
    return events


def deliver(tenant: Tenant, events: list[dict[str, Any]], pick: random.Random) -> None:
    """All events at least once, a third of them again, in any order, in batches from several senders at a time."""
    arriving = events + [event for event in events if pick.random() < 0.33]
    pick.shuffle(arriving)
    batches = []
    while arriving:
        size = pick.randint(1, LARGEST_BATCH)
        batches.append(arriving[:size])
        del arriving[:size]
    with ThreadPoolExecutor(SENDERS) as pool:
        list(pool.map(lambda batch: tenant.send(*batch), batches))


def derived(stack: Stack, tenant: Tenant) -> dict[str, Any]:
    """What readers are shown of each mirrored asset, less what is the server's own count."""
    own = {"_id", "tenant", "rev", "size", "registers", "accepted_at", "expires_at"}
    return {
        document["qualified_name"]: {name: value for name, value in document.items() if name not in own}
        for document in stack.mirror.database["assets"].find({"tenant": tenant.id})
    }


@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(estate=histories, seed=st.integers(0, 2**32))
def test_any_order_and_repetition_ends_in_the_same_state(
    stack: Stack, estate: list[list[dict[str, Any]]], seed: int
) -> None:
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
    run = uuid4().hex[:6]
    events = [
        event
        for number, history in enumerate(estate)
        for event in events_of(history, f"db://{run}/asset_{number}", start)
    ]
    tenants = [stack.new_tenant() for _ in range(PERMUTATIONS)]
    for number, tenant in enumerate(tenants):
        deliver(tenant, events, random.Random(seed + number))
    for tenant in tenants:
        settle(stack, tenant.ledger)
    first, *others = (derived(stack, tenant) for tenant in tenants)
    for other in others:
        assert other == first
