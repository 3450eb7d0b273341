"""A propagation rule: what travels, along which edges, how deep, through what, and what stops it.

`docs/propagation.md` says what each field is for and how a closure is computed.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lily_common.declaring import wrong
from lily_common.names import AssetType

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,62}$"
MAX_RULES = 100
RuleName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
#: A tag, or a pattern of tags in which `*` stands for any text.
TagPattern = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^|?\[\]\x00-\x1f]+$")]
PropertyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")]
#: Lineage between tables (and all that is no column), lineage between columns, from a parent to its children.
Way = Literal["table", "column", "children"]
#: Fields of an asset that say where it stands, and those that only ever describe the asset itself.
_OWN_FIELDS = frozenset(
    {"qualified_name", "asset_type", "aspect", "name", "parent", "data_type", "description", "properties"}
)


class Rule(BaseModel):
    """One rule. Exactly one of `classifications` and `property` says what travels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: RuleName
    description: str = Field("", max_length=2_000)
    classifications: tuple[TagPattern, ...] | None = Field(
        None, min_length=1, max_length=100, description="Tags that travel; `*` stands for any text"
    )
    property: PropertyName | None = Field(
        None, description="Or the property that travels: owners, terms, domain or one of your own"
    )
    along: tuple[Way, ...] = Field(
        ("table", "column"), min_length=1, max_length=3, description="The edges that it travels along"
    )
    max_depth: int = Field(20, ge=1, le=50, description="Edges from the origin at most")
    through: tuple[AssetType, ...] | None = Field(
        None,
        min_length=1,
        max_length=50,
        description="Types of the assets that take it and pass it on; null: all",
    )
    stop_at: tuple[TagPattern, ...] = Field(
        (), max_length=100, description="Assets with such a tag of their own neither take it nor pass it on"
    )
    enabled: bool = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.classifications is None) == (self.property is None):
            raise wrong("classifications", "exactly one of classifications and property is wanted")
        if self.property in _OWN_FIELDS:
            raise wrong("property", f"{self.property} belongs to an asset itself and does not travel")
        if len(set(self.along)) != len(self.along):
            raise wrong("along", "each way once")
        return self

    def carries(self, tag: str) -> bool:
        """Whether this tag travels by the rule."""
        return self.classifications is not None and _matches(tag, self.classifications)

    def stops(self, tag: str) -> bool:
        return _matches(tag, self.stop_at)

    def refines(self) -> bool:
        """Whether lineage between columns takes the place of that between their tables.

        It does where a table's tag reaches its columns: then the columns' own edges tell more.
        """
        return {"table", "column", "children"} <= set(self.along)


def read(declaration: Any) -> Rule:
    """The checked rule. Raises pydantic's ValidationError, whose locations name the fields."""
    return Rule.model_validate(declaration)


def _matches(tag: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(tag, pattern) for pattern in patterns)
