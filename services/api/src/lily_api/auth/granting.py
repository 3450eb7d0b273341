"""The rule that nobody gives what they do not have: checked wherever a credential is made or shown again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from lily_api.auth.principal import GRANTABLE, Principal
from lily_common.errors import FieldError, ForbiddenError, InvalidInputError


def check_grant(principal: Principal, scopes: Iterable[str]) -> list[str]:
    """The scopes, sorted and without repeats. Raises InvalidInputError or ForbiddenError (403)."""
    wanted = frozenset(str(scope) for scope in scopes)
    if reserved := wanted - GRANTABLE:
        raise InvalidInputError(
            "a scope cannot be granted",
            [FieldError("body.scopes", f"only the operator has {scope}") for scope in sorted(reserved)],
        )
    if lacking := principal.lacking(wanted):
        raise ForbiddenError(
            f"you cannot grant what you do not have: {', '.join(sorted(lacking))}", code="scope-escalation"
        )
    return sorted(wanted)


def check_expiry(expires_at: datetime | None) -> datetime | None:
    """Raises InvalidInputError when it is past."""
    if expires_at is None:
        return None
    if expires_at <= datetime.now(UTC):
        raise InvalidInputError(
            "the expiry is past", [FieldError("body.expires_at", "must be in the future")]
        )
    return expires_at
