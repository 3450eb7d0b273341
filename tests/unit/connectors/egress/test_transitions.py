"""What is news and what is not; and that any order of arrival ends in the same state, told last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from lily_common import events as ev
from lily_common import state
from lily_common.envelope import accept
from lily_connectors.egress.notices import Notice, read
from lily_connectors.egress.transitions import DERIVED_SOURCE, Asset, Transition, Verdict, apply, apply_all

T0 = datetime(2026, 5, 1, tzinfo=UTC)
QN = "postgres://db/shop/public/customers/email"


def notice(name: str, second: int, event_id: str | None = None, **data: Any) -> Notice:
    """An accepted event of `second` seconds after T0."""
    event = {
        "specversion": "1.0",
        "id": event_id or f"{name}-{second}-{sorted(data.items())}",
        "source": "urn:test",
        "type": f"lily.{name}",
        "time": (T0 + timedelta(seconds=second)).isoformat(),
        "data": {"qualified_name": QN, **data},
    }
    return read(accept("acme", event, T0 + timedelta(hours=1)).value, 1, T0)


def attach(second: int, tag: str = "PII", origin: str = "direct") -> Notice:
    return notice("classification.attached", second, tag=tag, origin=origin)


def detach(second: int, tag: str = "PII", origin: str = "direct") -> Notice:
    return notice("classification.detached", second, tag=tag, origin=origin)


def delete(second: int) -> Notice:
    return notice("asset.deleted", second)


def told(notices: list[Notice]) -> list[tuple[str, str | None]]:
    return [(one.name, one.event["data"].get("tag")) for one in apply_all(Asset(), notices)]


def test_first_attach_and_last_detach_are_news() -> None:
    assert told([attach(1), detach(2)]) == [("attached", "PII"), ("detached", "PII")]


def test_reassertion_is_no_news() -> None:
    asset = Asset()
    assert apply(asset, attach(1))[0] is Verdict.TRANSITION
    assert apply(asset, attach(2)) == (Verdict.REASSERTED, [])
    assert apply(asset, attach(2)) == (Verdict.REPEAT, [])
    assert apply(asset, detach(0)) == (Verdict.STALE, [])


def test_one_of_two_origins_gone_is_no_news() -> None:
    both = [attach(1), attach(2, origin="lineage:a")]
    assert told([*both, detach(3)]) == [("attached", "PII")]
    assert told([*both, detach(3), detach(4, origin="lineage:a")]) == [
        ("attached", "PII"),
        ("detached", "PII"),
    ]


def test_detach_of_what_was_never_attached_is_no_news() -> None:
    assert told([detach(1)]) == []


def test_origin_may_hold_the_separator() -> None:
    origin = "rule|x|y"
    assert told([attach(1, origin=origin), detach(2, origin=origin)]) == [
        ("attached", "PII"),
        ("detached", "PII"),
    ]


def test_delete_takes_back_tags_and_hides_what_is_older() -> None:
    notices = [attach(1), attach(2, tag="GDPR"), detach(3, tag="GDPR"), delete(5), attach(4), attach(6)]
    assert told(notices) == [
        ("attached", "PII"),
        ("attached", "GDPR"),
        ("detached", "GDPR"),
        ("detached", "PII"),
        ("deleted", None),
        ("attached", "PII"),
    ]


def test_derived_detach_names_its_cause_and_has_a_stable_identity() -> None:
    def derived() -> Transition:
        return apply_all(Asset(), [attach(1), delete(5)])[1]

    ended = derived()
    assert ended.source == DERIVED_SOURCE
    assert ended.event["causeid"] == delete(5).id
    assert (ended.event_id, ended.identity, ended.body) == (
        derived().event_id,
        derived().identity,
        derived().body,
    )
    assert ended.identity != delete(5).identity


def test_late_delete_spares_newer_tags() -> None:
    assert told([attach(9), delete(5)]) == [("attached", "PII"), ("deleted", None)]


def incident(kind: str, second: int, **data: Any) -> Notice:
    return notice(f"incident.{kind}", second, incident_id="i-1", **{"title": "no rows", **data})


def test_incident_is_news_when_its_state_or_content_differs() -> None:
    notices = [
        incident("opened", 1),
        incident("opened", 2),
        incident("updated", 3),
        incident("updated", 4, severity="high"),
        incident("resolved", 5, severity="high"),
        incident("resolved", 6, severity="high"),
        incident("opened", 7),
    ]
    assert [one.name for one in apply_all(Asset(), notices)] == ["opened", "updated", "resolved", "opened"]


def test_incidents_of_two_sources_are_two() -> None:
    other = notice("incident.opened", 2, incident_id="i-1", title="no rows")
    moved = read(orjson.dumps({**other.event, "source": "urn:other"}), 1, T0)
    assert len(apply_all(Asset(), [incident("opened", 1), moved])) == 2


def test_values_are_news_when_they_differ() -> None:
    notices = [
        notice("owner.changed", 1, owners=["a"]),
        notice("owner.changed", 2, owners=["a"]),
        notice("owner.changed", 3, owners=["a", "b"]),
        notice("description.changed", 4, description="x"),
        notice("description.changed", 5, description=None),
        notice("term.changed", 6, terms=[]),
    ]
    assert [verdict for one in notices for verdict in [apply(ASSETS, one)[0].value]] == [
        "transition",
        "reasserted",
        "transition",
        "transition",
        "transition",
        "transition",
    ]


ASSETS = Asset()


def test_body_is_the_accepted_one_with_the_transition() -> None:
    value = b'{"specversion":"1.0","id":"1","source":"s","type":"lily.classification.attached","subject":"q","tenantid":"acme","stateversion":"1.2.s 1","acceptedtime":"2026-05-01T00:00:00.000000Z","data":{"qualified_name":"q","tag":"PII","big":123456789012345678901234567890,"f":1.0}}'
    body = apply_all(Asset(), [read(value, 1, T0)])[0].body
    assert body == value[:-1] + b',"transition":"attached"}'


TAGS = st.sampled_from(["PII", "GDPR"])
ORIGINS = st.sampled_from(["direct", "lineage:a", "rule:b"])
SECONDS = st.integers(0, 8)
NOTICES = st.one_of(
    st.builds(attach, SECONDS, TAGS, ORIGINS),
    st.builds(detach, SECONDS, TAGS, ORIGINS),
    st.builds(delete, SECONDS),
)


def expected_tags(notices: list[Notice]) -> set[str]:
    """The effective tags by the common rule."""
    return set(state.assemble(state.fold(one.event for one in notices)).tags)


@given(st.lists(NOTICES, max_size=14), st.data())
def test_any_order_and_repetition_ends_in_the_same_state_and_tells_it_last(
    notices: list[Notice], data: st.DataObject
) -> None:
    arrival = data.draw(st.permutations([*notices, *notices[: len(notices) // 2]]))
    asset = Asset()
    transitions = apply_all(asset, arrival)
    wanted = expected_tags(notices)
    assert set(asset.effective_tags()) == wanted
    for tag in ("PII", "GDPR"):
        names = [one.name for one in transitions if one.event["data"].get("tag") == tag]
        assert names == [("attached", "detached")[index % 2] for index in range(len(names))]
        assert (names[-1:] == ["attached"]) == (tag in wanted)


@given(st.lists(NOTICES, max_size=12), st.data())
def test_an_identity_is_told_at_most_once(notices: list[Notice], data: st.DataObject) -> None:
    arrival = data.draw(st.permutations([*notices, *notices]))
    identities = [one.identity for one in apply_all(Asset(), arrival)]
    assert len(identities) == len(set(identities))


@given(
    st.lists(
        st.builds(
            lambda kind, second, severity: incident(kind, second, severity=severity),
            st.sampled_from(["opened", "updated", "resolved"]),
            SECONDS,
            st.sampled_from(["low", "high"]),
        ),
        min_size=1,
        max_size=10,
    ),
    st.data(),
)
def test_the_last_told_of_an_incident_is_its_state(notices: list[Notice], data: st.DataObject) -> None:
    transitions = apply_all(Asset(), data.draw(st.permutations(notices)))
    newest = max(notices, key=lambda one: one.version)
    last = transitions[-1].cause
    assert last.data == newest.data
    assert (last.type == ev.INCIDENT_RESOLVED) == (newest.type == ev.INCIDENT_RESOLVED)
