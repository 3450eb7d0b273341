"""What is told beside a tag that came or went: the policies that are about it, and where Lily tells why it is there.

Both are extension attributes of the event: `tagpolicies`, e.g. `mask-personal-data=mask, tell-privacy=notify` (policies in
force, by name, each with its action), and `explainurl`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote

from lily_common import events as ev
from lily_common.policies.model import Action, Policy
from lily_connectors.egress.transitions import Transition, with_attributes

POLICIES, URL = "tagpolicies", "explainurl"
_BETWEEN = ", "


def explained(transition: Transition, policies: Iterable[Policy], url: str) -> Transition:
    """The transition of a tag with both attributes, any other as it is. `url` is the API's, as its users reach it."""
    if transition.type not in (ev.TAG_ATTACHED, ev.TAG_DETACHED):
        return transition
    tag = transition.event["data"]["tag"]
    about = [one for one in policies if one.enabled and one.mode == "enforce" and one.about(tag)]
    attributes = {
        URL: f"{url.rstrip('/')}/v1/assets/{quote(transition.cause.subject, safe='/:')}/tags?explain=true"
    }
    if about:
        attributes[POLICIES] = _BETWEEN.join(f"{one.name}={one.action}" for one in about)
    return replace(
        transition,
        event=transition.event | attributes,
        body=with_attributes(transition.body, attributes),
    )


def notified_by(told: object) -> list[str]:
    """The names of the policies with the action notify in an attribute `tagpolicies`."""
    end = f"={Action.NOTIFY}"
    policies = told.split(_BETWEEN) if isinstance(told, str) else []
    return [one.removesuffix(end) for one in policies if one.endswith(end)]
