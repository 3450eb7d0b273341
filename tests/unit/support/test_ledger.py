"""The judge is judged: it must be content with a faultless run and catch each fault planted in one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.ledger import Identity, Ledger, Observed, Receipt, Verdict
from tests.support.rule import EPOCH, fold, write_of

TENANT = "shop"
TABLE = "postgres://db:5432/shop/public/customers"


def event(
    number: int, kind: str, *, seconds: int | None = None, asset: str = TABLE, **data: Any
) -> dict[str, Any]:
    moment = EPOCH + timedelta(days=20000, seconds=number if seconds is None else seconds)
    return {
        "specversion": "1.0",
        "id": f"e{number}",
        "source": "//test",
        "type": f"lily.{kind}",
        "time": moment.isoformat(),
        "data": {"qualified_name": asset, **data},
    }


def tag(
    number: int, tag: str = "PII", *, on: bool = True, origin: str | None = None, **more: Any
) -> dict[str, Any]:
    kind = "classification.attached" if on else "classification.detached"
    return event(number, kind, tag=tag, **({"origin": origin} if origin else {}), **more)


RUN = [
    event(1, "asset.upserted", asset_type="table", name="customers"),
    tag(2),
    tag(3, origin="lineage"),
    tag(4, on=False),
    tag(5, on=False, origin="lineage"),
    event(6, "asset.patched", set={"description": "who buys"}),
    event(7, "asset.patched", set={"description": "too late"}, seconds=6),
    tag(8, "GDPR"),
    tag(9, "GDPR"),
]
#: What a subscriber must hear of: the first attach, the last detach, and GDPR once.
NEWS = {"e2", "e5", "e8"}


def record(run: list[dict[str, Any]] = RUN) -> Ledger:
    ledger = Ledger()
    ledger.subscribe("hook", TENANT)
    for item in run:
        ledger.acknowledged(ledger.sent(TENANT, item))
    return ledger


def deliver(ledger: Ledger, item: dict[str, Any], delivery_id: str | None = None, **more: Any) -> None:
    identity = Identity(TENANT, item["source"], item["id"])
    ledger.received(Receipt("hook", delivery_id or f"msg_{item['id']}", identity, item, **more))


def faultless(run: list[dict[str, Any]] = RUN) -> Observed:
    """Stores that hold what `run` promises."""
    bronze = {Identity(TENANT, item["source"], item["id"]): [item["data"]] for item in run}
    state = {
        asset: {name: write.held for name, write in registers.items()}
        for asset, registers in fold(run).items()
    }
    return Observed(bronze=bronze, silver={TENANT: state}, mirror={TENANT: copy.deepcopy(state)})


def judged(ledger: Ledger, observed: Observed | None = None, *, news: bool = True) -> Verdict:
    for item in RUN:
        if news and item["id"] in NEWS:
            deliver(ledger, item)
    return ledger.judge(observed or faultless())


def test_a_faultless_run_passes() -> None:
    verdict = judged(record())
    verdict.check()
    assert (verdict.acknowledged, verdict.demanded, verdict.indeterminate, verdict.uncertain) == (9, 3, 0, 0)


def test_demands_exactly_the_changes_of_effective_state() -> None:
    assert {identity.id for identity in record().transitions(TENANT).demanded} == NEWS


def first(observed: Observed) -> Identity:
    return next(iter(observed.bronze))


def lose(observed: Observed) -> None:
    del observed.bronze[first(observed)]


def double(observed: Observed) -> None:
    observed.bronze[first(observed)].append(observed.bronze[first(observed)][0])


def alter(observed: Observed) -> None:
    observed.bronze[first(observed)] = [{"qualified_name": TABLE, "name": "another"}]


def invent(observed: Observed) -> None:
    observed.bronze[Identity(TENANT, "//test", "nobody")] = [{}]


def stale(store: str) -> Callable[[Observed], None]:
    def plant(observed: Observed) -> None:
        late = write_of(RUN[6])
        earlier = write_of({**RUN[6], "time": RUN[0]["time"]})
        assert earlier.version < late.version
        getattr(observed, store)[TENANT][TABLE]["field|core|description"] = earlier.held

    return plant


def missing(store: str) -> Callable[[Observed], None]:
    def plant(observed: Observed) -> None:
        del getattr(observed, store)[TENANT][TABLE]["tag|GDPR|direct"]

    return plant


def invent_state(observed: Observed) -> None:
    observed.mirror[TENANT][TABLE]["tag|SECRET|direct"] = write_of(tag(99, "SECRET")).held


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lose, "lost"),
        (double, "double"),
        (alter, "altered"),
        (invent, "unknown"),
        (stale("silver"), "stale"),
        (stale("mirror"), "stale"),
        (missing("silver"), "missing state"),
        (missing("mirror"), "missing state"),
        (invent_state, "invented state"),
    ],
)
def test_catches_a_planted_fault_in_a_store(plant: Callable[[Observed], None], kind: str) -> None:
    observed = faultless()
    plant(observed)
    verdict = judged(record(), observed)
    assert list(verdict.kinds) == [kind]
    with pytest.raises(AssertionError, match=kind):
        verdict.check()


def test_catches_a_missing_delivery() -> None:
    ledger = record()
    deliver(ledger, RUN[1])
    deliver(ledger, RUN[4])
    assert list(judged(ledger, news=False).kinds) == ["undelivered"]


def test_a_repeat_under_the_same_id_is_allowed_and_under_another_is_not() -> None:
    ledger = record()
    deliver(ledger, RUN[1])
    verdict = judged(ledger)
    verdict.check()
    assert verdict.repeated == 1
    ledger = record()
    deliver(ledger, RUN[1], "msg_other")
    assert list(judged(ledger).kinds) == ["unstable id"]


def test_catches_one_id_for_two_events() -> None:
    ledger = record()
    deliver(ledger, RUN[4], "msg_e2")
    assert set(judged(ledger).kinds) == {"unstable id", "shared id"}


@pytest.mark.parametrize("position", [2, 3, 8], ids=["second origin", "one of two origins", "re-asserted"])
def test_catches_a_delivery_that_is_no_news(position: int) -> None:
    ledger = record()
    deliver(ledger, RUN[position])
    assert list(judged(ledger).kinds) == ["no news"]


def test_catches_a_bad_signature_an_altered_body_and_an_unknown_event() -> None:
    ledger = record()
    deliver(ledger, RUN[1], valid=False)
    assert list(judged(ledger).kinds) == ["bad signature"]
    ledger = record()
    deliver(ledger, {**RUN[1], "data": {"tag": "other"}})
    assert list(judged(ledger).kinds) == ["altered"]
    ledger = record()
    deliver(ledger, tag(77))
    assert list(judged(ledger).kinds) == ["unknown"]


def test_catches_another_tenants_event() -> None:
    ledger = record()
    ledger.sent("other", tag(50))
    stray = Receipt("hook", "msg_x", Identity("other", "//test", "e50"), tag(50))
    ledger.received(stray)
    assert "crossed tenants" in judged(ledger).kinds


def test_an_unanswered_event_may_be_written_or_not() -> None:
    """Its register may be the old one or its own; nothing is demanded of tag changes from there on."""
    unanswered = tag(10, "GDPR", on=False)
    for run in (RUN, [*RUN, unanswered]):
        ledger = record()
        ledger.sent(TENANT, unanswered)
        verdict = judged(ledger, faultless(run))
        verdict.check()
        assert (verdict.indeterminate, verdict.uncertain) == (1, 1)


def test_overlapping_requests_leave_the_order_open() -> None:
    ledger = Ledger()
    on, off = tag(1), tag(2, on=False)
    first_sent, second_sent = ledger.sent(TENANT, on), ledger.sent(TENANT, off)
    ledger.acknowledged(first_sent)
    ledger.acknowledged(second_sent)
    assert ledger.transitions(TENANT) == (set(), {first_sent, second_sent})


def test_a_delete_hides_older_registers_from_the_mirror_but_not_from_silver() -> None:
    run = [*RUN, event(20, "asset.deleted")]
    observed = faultless(run)
    observed.mirror[TENANT][TABLE] = {"deleted": observed.mirror[TENANT][TABLE]["deleted"]}
    judged(record(run), observed).check()


def test_the_first_acknowledged_body_of_an_identity_counts() -> None:
    ledger = record()
    ledger.sent(TENANT, {**RUN[0], "data": {"qualified_name": TABLE, "name": "conflict"}})
    judged(ledger).check()
    ledger.sent(TENANT, tag(30))
    with pytest.raises(ValueError, match="two bodies"):
        ledger.sent(TENANT, tag(30, "OTHER"))
