"""The judge outside the product: what clients were promised, what arrived, and whether the two agree.

An identity is (tenant, source, id). It is *sent* before the request leaves, *acknowledged* once its item was answered
as accepted. In between it is indeterminate: it may or may not have been written, and either is right. Clients retry
until the answer is clear, so that a run should end with none indeterminate.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.support.rule import (
    ATTACHED,
    DETACHED,
    Held,
    Version,
    asset_of,
    fold,
    own_value,
    registers_of,
    visible,
    write_of,
)

Registers = Mapping[str, Mapping[str, Held]]
TAG_TYPES = frozenset({ATTACHED, DETACHED})
DELETE_TYPE = "lily.asset.deleted"


class Identity(NamedTuple):
    tenant: str
    source: str
    id: str


@dataclass
class Promise:
    """One event that a client sent. `sent` and `acked` are positions in the ledger's own count of happenings."""

    identity: Identity
    event: Mapping[str, Any]
    sent: int
    acked: int | None = None


@dataclass(frozen=True)
class Receipt:
    """One delivery as a receiver saw it. `at` in nanoseconds since 1970; `valid` is the signature's verdict."""

    subscription: str
    delivery_id: str
    identity: Identity
    event: Mapping[str, Any]
    at: int = 0
    valid: bool = True


@dataclass
class Observed:
    """What the stores hold. Bronze: identity -> payloads, one per row. Silver and mirror: asset -> register -> content."""

    bronze: Mapping[Identity, list[Mapping[str, Any]]]
    silver: Mapping[str, Registers]
    mirror: Mapping[str, Registers]


class Problem(NamedTuple):
    kind: str
    what: str


@dataclass
class Verdict:
    problems: list[Problem] = field(default_factory=list)
    acknowledged: int = 0
    indeterminate: int = 0
    demanded: int = 0
    uncertain: int = 0
    received: int = 0
    repeated: int = 0

    @property
    def kinds(self) -> Counter[str]:
        return Counter(problem.kind for problem in self.problems)

    def check(self) -> None:
        """Raise AssertionError that names the first problems of each kind."""
        if not self.problems:
            return
        shown = [f"{kind} × {count}" for kind, count in self.kinds.items()]
        for kind in self.kinds:
            examples = [problem for problem in self.problems if problem.kind == kind][:3]
            shown += [f"  {problem.kind}: {problem.what}" for problem in examples]
        raise AssertionError("the ledger finds:\n" + "\n".join(shown))


class Transitions(NamedTuple):
    """Tag changes of one tenant: those that must be told, and those that nobody can know to be news or not."""

    demanded: set[Identity]
    uncertain: set[Identity]


class Ledger:
    """Promises and receipts of one run; `judge` compares them with what the stores hold."""

    def __init__(self) -> None:
        self.promises: dict[Identity, Promise] = {}
        self.receipts: list[Receipt] = []
        #: Receiver's name -> the tenant whose tag changes it is owed.
        self.subscriptions: dict[str, str] = {}
        self._clock = 0

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def subscribe(self, name: str, tenant: str) -> None:
        """From now on every tag change of `tenant` is owed to the receiver called `name`."""
        self.subscriptions[name] = tenant

    def sent(self, tenant: str, event: Mapping[str, Any]) -> Identity:
        """Call before the request leaves. The same identity again is a retry; with another body, the first counts.

        Raises ValueError when the first body is not yet acknowledged: then nobody knows which one is first.
        """
        identity = Identity(tenant, event["source"], event["id"])
        known = self.promises.get(identity)
        if known is None:
            self.promises[identity] = Promise(identity, event, self._tick())
        elif known.event != event and known.acked is None:
            raise ValueError(f"{identity} sent with two bodies before either was acknowledged")
        return identity

    def acknowledged(self, identity: Identity) -> None:
        """Its item was answered as accepted (a repeat's acknowledgement changes nothing)."""
        promise = self.promises[identity]
        if promise.acked is None:
            promise.acked = self._tick()

    def received(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)

    @property
    def pending(self) -> list[Promise]:
        return [promise for promise in self.promises.values() if promise.acked is None]

    def tenants(self) -> set[str]:
        return {identity.tenant for identity in self.promises}

    def of(self, tenant: str) -> list[Promise]:
        return [promise for promise in self.promises.values() if promise.identity.tenant == tenant]

    def transitions(self, tenant: str) -> Transitions:
        """Which of the tenant's tag events changed whether a tag is effective, taken in the order of acknowledgement."""
        chains: dict[tuple[str, str], list[Promise]] = defaultdict(list)
        graves: dict[str, int] = {}
        for promise in self.of(tenant):
            asset = asset_of(promise.event)
            if promise.event["type"] in TAG_TYPES:
                chains[asset, promise.event["data"]["tag"]].append(promise)
            elif promise.event["type"] == DELETE_TYPE:
                graves[asset] = min(promise.sent, graves.get(asset, promise.sent))
        changes = Transitions(set(), set())
        for (asset, _tag), chain in chains.items():
            for promise, changed in _walk(chain, graves.get(asset)):
                if changed is None:
                    changes.uncertain.add(promise.identity)
                elif changed:
                    changes.demanded.add(promise.identity)
        return changes

    def judge(self, observed: Observed) -> Verdict:
        verdict = Verdict(
            acknowledged=sum(promise.acked is not None for promise in self.promises.values()),
            indeterminate=len(self.pending),
            received=len(self.receipts),
        )
        verdict.problems += self._judge_bronze(observed.bronze)
        for tenant in self.tenants():
            verdict.problems += self._judge_state(tenant, "silver", observed.silver.get(tenant, {}))
            verdict.problems += self._judge_state(tenant, "mirror", observed.mirror.get(tenant, {}))
        verdict.problems += self._judge_receipts(verdict)
        return verdict

    def _judge_bronze(self, rows: Mapping[Identity, list[Mapping[str, Any]]]) -> Iterator[Problem]:
        for identity, promise in self.promises.items():
            held = rows.get(identity, [])
            if not held and promise.acked is not None:
                yield Problem("lost", f"bronze has no row of {identity}")
            if len(held) > 1:
                yield Problem("double", f"bronze has {len(held)} rows of {identity}")
            if held and held[0] != promise.event["data"]:
                yield Problem("altered", f"bronze holds another body of {identity}: {held[0]}")
        tenants = self.tenants()
        for identity in rows:
            if identity.tenant in tenants and identity not in self.promises:
                yield Problem("unknown", f"bronze has {identity}, which nobody sent")

    def _judge_state(self, tenant: str, store: str, held: Registers) -> Iterator[Problem]:
        promises = self.of(tenant)
        state = fold(promise.event for promise in promises if promise.acked is not None)
        maybe = _candidates(promise for promise in promises if promise.acked is None)
        for asset, registers in state.items():
            seen = visible(registers)
            for name, write in registers.items():
                found = held.get(asset, {}).get(name)
                if found is None:
                    if store == "silver" or name in seen:
                        yield Problem("missing state", f"{store} has no {name} of {tenant}|{asset}")
                    continue
                expected = [write.held, *_newer(maybe, asset, name, write.version)]
                if not any(_same(name, found, held) for held in expected):
                    kind = "stale" if found.version < write.held.version else "wrong state"
                    yield Problem(kind, f"{store} {name} of {tenant}|{asset} is {found}, not {write.held}")
        for asset, found_registers in held.items():
            for name, content in found_registers.items():
                possible = [held for _, held in maybe.get((asset, name), [])]
                if name not in state.get(asset, {}) and not any(_same(name, content, h) for h in possible):
                    yield Problem("invented state", f"{store} has {name} of {tenant}|{asset}: {content}")

    def _judge_receipts(self, verdict: Verdict) -> list[Problem]:
        problems: list[Problem] = []
        delivered: dict[tuple[str, Identity], set[str]] = defaultdict(set)
        for receipt in self.receipts:
            told = (receipt.subscription, receipt.identity)
            verdict.repeated += told in delivered
            delivered[told].add(receipt.delivery_id)
            problems += self._judge_receipt(receipt)
        for name, tenant in self.subscriptions.items():
            changes = self.transitions(tenant)
            verdict.demanded += len(changes.demanded)
            verdict.uncertain += len(changes.uncertain)
            got = {identity for subscription, identity in delivered if subscription == name}
            for identity in changes.demanded - got:
                problems.append(Problem("undelivered", f"{name} never got {identity}"))
            for identity in got - changes.demanded - changes.uncertain:
                promise = self.promises.get(identity)
                if promise is not None and promise.event["type"] in TAG_TYPES:
                    problems.append(Problem("no news", f"{name} was told {identity}, which changed nothing"))
        problems += _judge_ids(delivered)
        return problems

    def _judge_receipt(self, receipt: Receipt) -> Iterator[Problem]:
        if not receipt.valid:
            yield Problem("bad signature", f"{receipt.subscription}: {receipt.delivery_id}")
        promise = self.promises.get(receipt.identity)
        if promise is None and self._took_back(receipt):
            return
        tenant = self.subscriptions.get(receipt.subscription)
        if tenant is not None and receipt.identity.tenant != tenant:
            yield Problem("crossed tenants", f"{receipt.subscription} of {tenant} got {receipt.identity}")
        elif promise is None:
            yield Problem("unknown", f"{receipt.subscription} got {receipt.identity}, which nobody sent")
        elif receipt.event.get("data") != promise.event["data"]:
            yield Problem("altered", f"{receipt.subscription} got another body of {receipt.identity}")

    def _took_back(self, receipt: Receipt) -> bool:
        """Whether it is Lily's own detach of a tag that a delete ended: it names that delete as its cause."""
        cause = Identity(
            receipt.identity.tenant,
            str(receipt.event.get("causesource")),
            str(receipt.event.get("causeid")),
        )
        known = self.promises.get(cause)
        return (
            receipt.event.get("type") == DETACHED and known is not None and known.event["type"] == DELETE_TYPE
        )


def _walk(chain: list[Promise], grave: int | None) -> Iterator[tuple[Promise, bool | None]]:
    """(event, did it change the tag) in order; None where overlapping or unanswered requests leave the order open.

    After a delete of the asset has been sent, nothing more is demanded of this chain: the delete itself is the news.
    """
    origins: dict[str, tuple[Version, bool]] = {}
    newest_ack = 0
    unsure = False
    ordered = sorted(chain, key=lambda promise: promise.sent)
    for position, promise in enumerate(ordered):
        after = ordered[position + 1].sent if position + 1 < len(ordered) else None
        overlaps = promise.sent < newest_ack or (
            after is not None and (promise.acked is None or promise.acked > after)
        )
        buried = grave is not None and (promise.acked is None or promise.acked > grave)
        unsure = unsure or overlaps or buried or promise.acked is None
        newest_ack = max(newest_ack, promise.acked or 0)
        if unsure:
            yield promise, None
            continue
        write = write_of(promise.event)
        origin = promise.event["data"].get("origin", "direct")
        before = any(attached for _, attached in origins.values())
        if origin not in origins or write.version > origins[origin][0]:
            origins[origin] = (write.version, write.type == ATTACHED)
        yield promise, before != any(attached for _, attached in origins.values())


def _candidates(promises: Iterable[Promise]) -> dict[tuple[str, str], list[tuple[Version, Held]]]:
    """What the indeterminate may have left: (asset, register) -> (version, content)."""
    maybe: dict[tuple[str, str], list[tuple[Version, Held]]] = defaultdict(list)
    for promise in promises:
        write = write_of(promise.event)
        for name in registers_of(promise.event):
            maybe[asset_of(promise.event), name].append((write.version, write.held))
    return maybe


def _same(name: str, found: Held, expected: Held) -> bool:
    """Of a field's register a store may keep no more than the field."""
    return (
        found.type == expected.type
        and found.version == expected.version
        and own_value(name, found) == own_value(name, expected)
    )


def _newer(
    maybe: Mapping[tuple[str, str], list[tuple[Version, Held]]], asset: str, name: str, than: Version
) -> list[Held]:
    return [held for version, held in maybe.get((asset, name), []) if version > than]


def _judge_ids(delivered: Mapping[tuple[str, Identity], set[str]]) -> Iterator[Problem]:
    """A delivery's id is the same over retries, and of no other event to that subscription."""
    owners: dict[tuple[str, str], Identity] = {}
    for (subscription, identity), ids in delivered.items():
        if len(ids) > 1:
            yield Problem("unstable id", f"{subscription} got {identity} under {sorted(ids)}")
        for delivery_id in ids:
            other = owners.setdefault((subscription, delivery_id), identity)
            if other != identity:
                yield Problem("shared id", f"{delivery_id} stands for {identity} and {other}")
