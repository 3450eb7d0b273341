"""One tenant's enforcer at this moment, and how each kind of question is put to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from lily_api.enforcement.feed import Enforcement
from lily_api.enforcement.opa import Enforcer
from lily_api.services import Services
from lily_common.errors import FieldError, InvalidInputError

Answer = Callable[[Enforcer, dict[str, Any]], Any]
#: The last part of the path -> how such a question is answered.
ANSWERS: Final[dict[str, Answer]] = {
    "allow": Enforcer.allows,
    "batch": Enforcer.allowed,
    "row-filters": Enforcer.filters,
    "column-mask": Enforcer.mask,
    "column-masks": Enforcer.masks,
}
#: What answering raises when a question lacks something.
MALFORMED: Final = (KeyError, TypeError, AttributeError, IndexError, ValueError)


async def enforcer(services: Services, tenant: str) -> Enforcer:
    """Raises UnavailableError while it is not known what the tenant has declared: no answer is then better than any."""
    enforcement = services.get(Enforcement)
    declared = await enforcement.declared_of(tenant)
    current = not declared.mappings or await enforcement.is_current()
    view = enforcement.tags
    return Enforcer(
        declared.policies,
        declared.mappings,
        tags=lambda name: view.tags_in_any_case(tenant, name),
        blind=not current,
        operators=enforcement.operators,
    )


def question(body: bytes) -> dict[str, Any]:
    """The `input` of a question. Raises InvalidInputError that names what is wrong."""
    try:
        document = orjson.loads(body)
    except ValueError:
        raise _wrong("body", "JSON is wanted") from None
    given = document.get("input") if isinstance(document, dict) else None
    if not isinstance(given, dict):
        raise _wrong("body.input", "an object is wanted, as Trino's OPA plugin sends it")
    for field, kind in (("context.identity.user", str), ("action.operation", str)):
        held: Any = given
        for part in field.split("."):
            held = held.get(part) if isinstance(held, dict) else None
        if not isinstance(held, kind):
            raise _wrong(f"body.input.{field}", "text is wanted, as Trino's OPA plugin sends it")
    return given


def malformed(error: Exception) -> InvalidInputError:
    """For a question whose resources are not as the plugin sends them."""
    return _wrong(
        "body.input.action", f"not as Trino's OPA plugin sends it: {type(error).__name__}: {error}"[:300]
    )


def _wrong(field: str, message: str) -> InvalidInputError:
    return InvalidInputError("the question is not understood", [FieldError(field, message)])
