"""Declarations that people write in YAML or JSON: errors that name the field, text without YAML's traps."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError


def problems(invalid: ValidationError) -> list[tuple[str, str]]:
    """(field, what is wrong) of each error, the field as `dimensions.0.on`."""
    found = invalid.errors(include_url=False, include_input=False)
    return [(_field(item), item["msg"]) for item in found]


def wrong(field: str, message: str) -> PydanticCustomError:
    """For a validator to raise: an error that is the field's, wherever it is found."""
    text = message.replace("{", "(").replace("}", ")")
    return PydanticCustomError("declaration", f"{text}", {"field": field})


def _field(item: Any) -> str:
    named = (item.get("ctx") or {}).get("field")
    return str(named or ".".join(str(part) for part in item["loc"]) or "declaration")[:500]
