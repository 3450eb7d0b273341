"""How an engine's names lead to assets: `lake.cdc_shop.public_{table}` is `postgres://shop-db:5432/shop/public/{table}`."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from lily_common.declaring import wrong
from lily_common.policies.model import NAME_PATTERN, Expression, Strict

MAX_MAPPINGS = 200
MappingName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
_HOLE = re.compile(r"\{([a-z][a-z0-9_]*)\}")


class Mapping(Strict):
    """One mapping of tables. A hole such as `{table}` stands for any text without a dot, in both names."""

    name: MappingName
    description: str = Field("", max_length=2_000)
    table: Annotated[str, StringConstraints(min_length=5, max_length=1_000)] = Field(
        description="catalog.schema.table, with holes"
    )
    asset: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] = Field(
        description="The table's qualified name, with the same holes; a column's is below it"
    )
    writes: Literal["refuse", "allow"] = Field(
        "refuse",
        description="Whether the engine may write to these tables: what is masked must not be written back",
    )

    rows: Expression | None = Field(
        None,
        description="SQL condition on the rows that anybody sees, in the dialect of the engine: a tenant's own",
        examples=["tenant = 'acme'"],
    )
    when_stale: Literal["closed", "open"] = Field(
        "closed",
        description="While Lily cannot know the newest tags: closed shows nothing, open obeys the last ones known",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.table.count(".") != 2 or not all(self.table.split(".")):
            raise wrong("table", "catalog.schema.table is wanted")
        holes = _HOLE.findall(self.table)
        if len(holes) != len(set(holes)):
            raise wrong("table", "each hole once")
        unknown = set(_HOLE.findall(self.asset)) - set(holes)
        if unknown:
            raise wrong("asset", f"there is no hole {sorted(unknown)[0]} in table")
        for field, text in (("table", self.table), ("asset", self.asset)):
            if "{" in _HOLE.sub("", text) or "}" in _HOLE.sub("", text):
                raise wrong(field, "a hole is a lower-case word in braces")
        return self

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _compiled(self.table)

    @cached_property
    def _catalog(self) -> re.Pattern[str]:
        return _compiled(self.table.partition(".")[0])

    def covers(self, catalog: str) -> bool:
        """Whether tables of the catalog may be this mapping's."""
        return self._catalog.fullmatch(catalog) is not None

    def asset_of(self, catalog: str, schema: str, table: str) -> str | None:
        """The table's qualified name; None when this mapping is not about it."""
        found = self._pattern.fullmatch(f"{catalog}.{schema}.{table}")
        if found is None:
            return None
        return _HOLE.sub(lambda hole: found.group(hole.group(1)), self.asset)


def _compiled(text: str) -> re.Pattern[str]:
    """Letter case does not count: engines fold the names of tables."""
    parts = (
        f"(?P<{part}>[^.]+)" if place % 2 else re.escape(part) for place, part in enumerate(_HOLE.split(text))
    )
    return re.compile("".join(parts), re.IGNORECASE)


def read(declaration: Any) -> Mapping:
    """The checked mapping. Raises pydantic's ValidationError, whose locations name the fields."""
    return Mapping.model_validate(declaration)


def resolve(mappings: list[Mapping], catalog: str, schema: str, table: str) -> tuple[Mapping, str] | None:
    """(the mapping, the table's qualified name): of several the one whose text is longest, then the first by name."""
    found = [(one, asset) for one in mappings if (asset := one.asset_of(catalog, schema, table)) is not None]
    return min(found, key=lambda each: (-len(each[0].table), each[0].name), default=None)
