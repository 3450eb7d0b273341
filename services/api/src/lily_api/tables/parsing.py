"""A declaration out of a request's body, JSON or YAML, with errors that name the field."""

from __future__ import annotations

from lily_api.declarations import parsing
from lily_common.errors import FieldError, InvalidInputError
from lily_common.gold import spec
from lily_common.gold.builtin import builtin
from lily_common.gold.spec import TableSpec


def read_declaration(name: str, content_type: str, body: bytes) -> TableSpec:
    """The declaration of the table `name`. Raises InvalidInputError (422), MalformedError, UnsupportedMediaTypeError."""
    given = parsing.read_declaration(name, content_type, body)
    if name in builtin():
        message = f"{name} is a built-in table"
        raise InvalidInputError(message, [FieldError("body.name", message)], code="builtin-table")
    return parsing.checked(spec.read, given)
