"""A declaration out of a request's body, JSON or YAML, with errors that name the field."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import ValidationError

from lily_api.tables.schemas import JSON, YAML
from lily_common.errors import FieldError, InvalidInputError, MalformedError, UnsupportedMediaTypeError
from lily_common.gold import spec
from lily_common.gold.builtin import builtin
from lily_common.gold.spec import TableSpec
from lily_common.gold.text import load

_YAMLS = frozenset({YAML, "application/x-yaml", "text/yaml", "text/x-yaml"})


def read_declaration(name: str, content_type: str, body: bytes) -> TableSpec:
    """The declaration of the table `name`. Raises InvalidInputError (422), MalformedError, UnsupportedMediaTypeError."""
    given = _value(content_type.partition(";")[0].strip().lower(), body)
    if not isinstance(given, dict):
        raise InvalidInputError("a declaration is an object", [FieldError("body", "an object is wanted")])
    if given.setdefault("name", name) != name:
        message = f"the path says {name}"
        raise InvalidInputError(f"body.name: {message}", [FieldError("body.name", message)])
    if name in builtin():
        message = f"{name} is a built-in table"
        raise InvalidInputError(message, [FieldError("body.name", message)], code="builtin-table")
    try:
        return spec.read(given)
    except ValidationError as invalid:
        errors = [FieldError(f"body.{field}", message) for field, message in spec.problems(invalid)]
        raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors) from None


def _value(media_type: str, body: bytes) -> Any:
    try:
        if media_type in _YAMLS:
            return load(body)
        if media_type == JSON:
            return orjson.loads(body)
    except ValueError as broken:
        raise MalformedError(f"the declaration cannot be read: {broken}") from None
    raise UnsupportedMediaTypeError(f"a declaration comes as {JSON} or {YAML}")
