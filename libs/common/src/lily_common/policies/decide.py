"""The one decision on who may see what: used by every point of enforcement, pure, and ready to explain itself.

Of the policies that are about a tag of the asset and about who reads, those of the greatest precedence decide what is
shown; among them the strictest: deny, then the masks (null, constant, hash, partial, SQL), then allow; of equals the
first by name. Row filters do not contend: every one that applies must hold. Nothing that applies means allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from lily_common.policies.model import Action, Mask, MaskKind, Policy, Who

_STRICTNESS = {
    MaskKind.NULL: 5,
    MaskKind.CONSTANT: 4,
    MaskKind.HASH: 3,
    MaskKind.PARTIAL: 2,
    MaskKind.SQL: 1,
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a policy counts: by which of the asset's tags. `decisive`: the decision is this one's."""

    policy: str
    action: Action
    tag: str
    precedence: int
    decisive: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """What may be seen of one asset. `filters` are conditions that all must hold for a row to be shown."""

    action: Action = Action.ALLOW
    mask: Mask | None = None
    filters: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    #: What policies in dry run would have done.
    would: tuple[Reason, ...] = field(default=())

    @property
    def allowed(self) -> bool:
        return self.action is not Action.DENY


ALLOWED = Decision()


def decide(policies: Iterable[Policy], tags: Collection[str], who: Who) -> Decision:
    """What `who` may see of an asset with these effective tags."""
    if not tags:
        return ALLOWED
    matching = [
        (policy, tag)
        for policy in policies
        if policy.enabled and policy.action is not Action.NOTIFY and (tag := _tag(policy, tags)) is not None
        if policy.concerns(who)
    ]
    if not matching:
        return ALLOWED
    enforced = [(policy, tag) for policy, tag in matching if policy.mode == "enforce"]
    deciding = [policy for policy, _tag in enforced if policy.action is not Action.FILTER]
    winner = min(deciding, key=_rank, default=None)
    filters = sorted(
        (policy for policy, _tag in enforced if policy.action is Action.FILTER), key=lambda one: one.name
    )
    return Decision(
        action=winner.action if winner is not None else Action.ALLOW,
        mask=winner.mask if winner is not None else None,
        filters=tuple(dict.fromkeys(policy.filter for policy in filters if policy.filter is not None)),
        reasons=tuple(
            Reason(
                policy.name,
                policy.action,
                tag,
                policy.precedence,
                policy is winner or policy.action is Action.FILTER,
            )
            for policy, tag in enforced
        ),
        would=tuple(
            Reason(policy.name, policy.action, tag, policy.precedence, decisive=False)
            for policy, tag in matching
            if policy.mode == "dry_run"
        ),
    )


def _tag(policy: Policy, tags: Collection[str]) -> str | None:
    """The first of the tags, by name, that the policy is about."""
    return next((tag for tag in sorted(tags) if policy.about(tag)), None)


def _rank(policy: Policy) -> tuple[int, int, str]:
    """The least decides: by precedence, strictness, name."""
    strictness = {Action.DENY: 10, Action.ALLOW: 0}.get(policy.action)
    if strictness is None:
        strictness = _STRICTNESS[policy.mask.kind] if policy.mask is not None else 0
    return -policy.precedence, -strictness, policy.name
