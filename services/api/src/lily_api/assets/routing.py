"""Qualified names in paths. They hold `/`, and may even end in `/lineage`: how a path is read must not be a guess.

The rule: a sub-resource (`lineage`, `incidents`, `history`, `tags`) is the last segment after a slash that the client did
*not* percent-encode. A name with its own slashes encoded (`%2F`) is thus never ambiguous; written plainly it works
as well, unless the name itself ends in such a word. Servers hand on the path decoded, so the raw path decides.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from lily_common.errors import FieldError, InvalidInputError
from lily_common.names import check_qualified_name

QualifiedNamePath = Annotated[
    str,
    Path(
        max_length=2048,
        description=(
            "The asset's qualified name, percent-encoded with its slashes (`/` as `%2F`). Plain slashes work too, "
            "but a plain last segment `lineage`, `incidents`, `history` or `tags` names the sub-resource"
        ),
        examples=["postgres://shop-db:5432/shop/public/customers/email"],
    ),
]


class SubResource(APIRoute):
    """A route `…/{qualified_name:path}/<word>` that matches only when the slash before the word came plain."""

    def matches(self, scope: Scope) -> tuple[Match, Any]:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        word = self.path_format.rsplit("/", 1)[1]
        if not raw.endswith(b"/" + word.encode()):
            return Match.NONE, {}
        return super().matches(scope)


def checked(qualified_name: str) -> str:
    """The name itself. Raises InvalidInputError when no asset can have it."""
    problem = check_qualified_name(qualified_name)
    if problem is not None:
        raise InvalidInputError(
            f"qualified_name {problem}", [FieldError("path.qualified_name", problem)], code="invalid-name"
        )
    return qualified_name
