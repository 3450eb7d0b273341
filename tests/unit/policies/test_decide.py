"""One decision of many policies: what wins, who is spared, what is only said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lily_common.declaring import problems
from lily_common.policies.decide import ALLOWED, decide
from lily_common.policies.model import Action, MaskKind, Policy, Who, read

ANN = Who(user="ann", groups=("analysts",), roles=("reader",))


def policy(name: str = "p", *, action: str = "mask", tags: Any = ("PII",), **more: Any) -> Policy:
    return read({"name": name, "action": action, "tags": list(tags), **more})


def test_without_a_policy_or_a_tag_all_is_allowed() -> None:
    assert decide([], {"PII"}, ANN) == ALLOWED
    assert decide([policy()], set(), ANN) == ALLOWED
    assert decide([policy()], {"Other"}, ANN) == ALLOWED


def test_the_strictest_of_one_precedence_decides() -> None:
    masks = [policy("hash", mask={"kind": "hash"}), policy("null")]
    found = decide(masks, {"PII"}, ANN)
    assert (found.action, found.mask.kind if found.mask else None) == (Action.MASK, MaskKind.NULL)
    assert {reason.policy: reason.decisive for reason in found.reasons} == {"hash": False, "null": True}
    assert not decide([*masks, policy("no", action="deny")], {"PII"}, ANN).allowed


def test_precedence_goes_before_strictness() -> None:
    policies = [
        policy("no", action="deny"),
        policy("stewards", action="allow", precedence=10, to={"groups": ["anal*"]}),
    ]
    assert decide(policies, {"PII"}, ANN).allowed
    assert not decide(policies, {"PII"}, Who(user="bob")).allowed


def test_some_are_spared() -> None:
    spared = policy(action="deny", unless={"roles": ["reader"]})
    assert decide([spared], {"PII"}, ANN).allowed
    assert not decide([spared], {"PII"}, Who(user="ann")).allowed
    assert decide([policy(action="deny", to={"users": ["bob"]})], {"PII"}, ANN).allowed


def test_filters_add_up_and_masks_stay() -> None:
    policies = [
        policy("b", action="filter", filter="region = 'eu'"),
        policy("a", action="filter", filter="active"),
        policy("m", precedence=-5),
    ]
    found = decide(policies, {"PII"}, ANN)
    assert (found.filters, found.action) == (("active", "region = 'eu'"), Action.MASK)


def test_a_dry_run_is_only_said() -> None:
    found = decide([policy(action="deny", mode="dry_run")], {"PII"}, ANN)
    assert found.allowed
    assert [reason.policy for reason in found.would] == ["p"]


policies = st.lists(
    st.builds(
        lambda name, action, precedence, tag, user: policy(
            name, action=action, precedence=precedence, tags=[tag], to={"users": [user]} if user else {}
        ),
        st.sampled_from(["a", "ab", "b"]),
        st.sampled_from(["mask", "deny", "allow"]),
        st.integers(-1, 1),
        st.sampled_from(["PII", "P*", "Other"]),
        st.sampled_from(["", "ann", "bob"]),
    ),
    max_size=6,
)


@given(policies, st.randoms())
def test_neither_order_nor_what_does_not_concern_counts(held: list[Policy], chance: Any) -> None:
    before = decide(held, {"PII"}, ANN)
    shuffled = [one for one in held if one.concerns(ANN) and one.about("PII")]
    chance.shuffle(shuffled)
    after = decide(shuffled, {"PII"}, ANN)
    assert (before.action, before.mask, before.filters) == (after.action, after.mask, after.filters)
    greatest = max((one.precedence for one in shuffled), default=None)
    top = {one.action for one in shuffled if one.precedence == greatest}
    wanted = next((action for action in (Action.DENY, Action.MASK) if action in top), Action.ALLOW)
    assert before.action is wanted


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"action": "deny", "mask": {"kind": "null"}}, "mask"),
        ({"action": "filter"}, "filter"),
        ({"action": "deny", "filter": "x"}, "filter"),
        ({"mask": {"kind": "constant"}}, "mask.constant"),
        ({"mask": {"kind": "partial"}}, "mask.keep_last"),
        ({"mask": {"kind": "sql", "expression": "lower(x)"}}, "mask.expression"),
        ({"mask": {"kind": "sql", "expression": "{column}; drop"}}, "mask.expression"),
        ({"tags": []}, "tags"),
        ({"mode": "maybe"}, "mode"),
    ],
)
def test_wrong_policies_are_told_by_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read({"name": "p", "action": "mask", "tags": ["PII"], **given})
    assert field in [name for name, _message in problems(caught.value)]
