"""A declaration out of a request's body, JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from lily_common.declaring import problems
from lily_common.errors import FieldError, InvalidInputError, MalformedError, UnsupportedMediaTypeError
from lily_common.gold.text import load

JSON, YAML = "application/json", "application/yaml"
Checked = TypeVar("Checked")
_YAMLS = frozenset({YAML, "application/x-yaml", "text/yaml", "text/x-yaml"})


def read_declaration(name: str, content_type: str, body: bytes) -> dict[str, Any]:
    """What is declared under `name`, unchecked but for that. Raises InvalidInputError (422), MalformedError,
    UnsupportedMediaTypeError."""
    given = _value(content_type.partition(";")[0].strip().lower(), body)
    if not isinstance(given, dict):
        raise InvalidInputError("a declaration is an object", [FieldError("body", "an object is wanted")])
    if given.setdefault("name", name) != name:
        message = f"the path says {name}"
        raise InvalidInputError(f"body.name: {message}", [FieldError("body.name", message)])
    return given


def checked(read: Callable[[Any], Checked], given: Any) -> Checked:
    """What `read` makes of the declaration. Raises InvalidInputError (422) naming each wrong field."""
    try:
        return read(given)
    except ValidationError as invalid:
        errors = [FieldError(f"body.{field}", message) for field, message in problems(invalid)]
        raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors) from None


def declared_body(schema: str, example: dict[str, Any], example_yaml: str) -> dict[str, Any]:
    """The OpenAPI form of a declaration, as JSON or YAML."""
    return {
        "required": True,
        "content": {
            JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": example},
            YAML: {"schema": {"type": "string"}, "example": example_yaml},
        },
    }


def _value(media_type: str, body: bytes) -> Any:
    try:
        if media_type in _YAMLS:
            return load(body)
        if media_type == JSON:
            return orjson.loads(body)
    except ValueError as broken:
        raise MalformedError(f"the declaration cannot be read: {broken}") from None
    raise UnsupportedMediaTypeError(f"a declaration comes as {JSON} or {YAML}")
