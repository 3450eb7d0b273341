"""What someone may see, asked through the API."""

from __future__ import annotations

from dataclasses import asdict

from lily_api.assets import service as assets
from lily_api.assets.routing import checked
from lily_api.declarations import service
from lily_api.declarations.kinds import POLICY
from lily_api.policies.schemas import DecideRequest, DecisionView
from lily_api.services import Services
from lily_common.errors import FieldError, InvalidInputError
from lily_common.policies.decide import decide as decided
from lily_common.policies.model import Policy, Who, read


async def decide(services: Services, tenant: str, wanted: DecideRequest) -> DecisionView:
    """Raises NotFoundError for an asset that is not known, InvalidInputError when neither asset nor tags are given."""
    tags = set(wanted.tags)
    if wanted.qualified_name is not None:
        found = await assets.get(services, tenant, checked(wanted.qualified_name))
        tags |= {held.tag for held in found.tags}
    elif not tags:
        message = "a qualified_name or tags are wanted"
        raise InvalidInputError(message, [FieldError("body.qualified_name", message)])
    policies = {one.name: one for one in await _declared(services, tenant)}
    policies |= {one.name: one for one in wanted.suppose}
    who = Who(user=wanted.user, groups=tuple(wanted.groups), roles=tuple(wanted.roles))
    decision = decided(policies.values(), tags, who)
    return DecisionView.model_validate(
        {
            "action": decision.action.value,
            "mask": decision.mask,
            "filters": list(decision.filters),
            "tags": sorted(tags),
            "reasons": [asdict(reason) for reason in decision.reasons],
            "would": [asdict(reason) for reason in decision.would],
        }
    )


async def _declared(services: Services, tenant: str) -> list[Policy]:
    rows = await service.list_page(services, tenant, POLICY, "", POLICY.most)
    return [read(row.body) for row in rows]
