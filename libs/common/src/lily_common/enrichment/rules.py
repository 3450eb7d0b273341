"""An enrichment rule: what an asset has to look like, and the tags that it then bears or is suggested.

`docs/enrichment.md` says what each field is for.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, Self

import re2  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lily_common.declaring import wrong
from lily_common.events import KeyPart
from lily_common.names import AssetType

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,62}$"
MAX_RULES = 200
RuleName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
#: Text in which `*` stands for any text and `?` for a letter; upper and lower case are the same.
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f]+$")]
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=100)]


class _Compiled(Protocol):
    def fullmatch(self, text: str) -> Any: ...


class Values(BaseModel):
    """A regular expression over sampled values (RE2's syntax: it cannot be made to run for ever)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    regex: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] = Field(
        description="What a whole value has to be like"
    )
    share: float = Field(0.8, gt=0, le=1, description="The part of the sampled values that has to match")
    least: int = Field(3, ge=1, le=10_000, description="How many values there have to be to go by")

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            _ = self._compiled
        except re2.error as invalid:
            raise wrong("regex", f"not a regular expression of RE2's: {invalid}") from None
        return self

    @cached_property
    def _compiled(self) -> _Compiled:
        compiled: _Compiled = re2.compile(self.regex)
        return compiled

    def matched(self, values: tuple[str, ...]) -> int:
        """How many of the values match; 0 when too few do."""
        count = sum(self._compiled.fullmatch(value) is not None for value in values)
        return count if len(values) >= self.least and count >= self.share * len(values) else 0


class Looks(BaseModel):
    """What an asset has to look like: every field that is given has to fit, each by any of its entries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: Patterns = Field((), description="Of its own name, e.g. `*email*`", examples=[["*email*"]])
    qualified_names: Patterns = Field(
        (), description="Of its qualified name", examples=[["postgres://crm/*"]]
    )
    asset_types: tuple[AssetType, ...] = Field((), max_length=50, description="Its type")
    data_types: Patterns = Field((), description="Of a column's data type", examples=[["varchar*", "text"]])
    terms: Patterns = Field((), description="Of any of its glossary terms", examples=[["Personal data*"]])
    values: Values | None = Field(None, description="Of values that a connector has sampled")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self == Looks.model_construct():
            raise wrong("names", "at least one condition is wanted")
        return self


class EnrichmentRule(BaseModel):
    """One rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: RuleName
    description: str = Field("", max_length=2_000)
    when: Looks
    tags: tuple[KeyPart, ...] = Field(min_length=1, max_length=20, description="Tags that it gives")
    action: Literal["attach", "suggest"] = Field(
        "attach", description="attach: the asset bears the tags; suggest: it is shown that it might"
    )
    enabled: bool = True


class Asset(BaseModel):
    """What a rule looks at."""

    model_config = ConfigDict(frozen=True)

    qualified_name: str
    name: str
    asset_type: str | None = None
    data_type: str | None = None
    terms: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()


def reason(rule: EnrichmentRule, asset: Asset) -> str | None:
    """Why the rule applies to the asset, as a sentence; None when it does not. A disabled rule applies to nothing."""
    if not rule.enabled:
        return None
    looks = rule.when
    parts: list[str] = []
    for given, value, label in (
        (looks.names, asset.name, "its name is"),
        (looks.qualified_names, asset.qualified_name, "it is"),
        (looks.data_types, asset.data_type, "its data type is"),
    ):
        if given:
            if value is None or _first(given, (value,)) is None:
                return None
            parts.append(f"{label} {value}")
    if looks.asset_types:
        if asset.asset_type not in {kind.value for kind in looks.asset_types}:
            return None
        parts.append(f"it is a {asset.asset_type}")
    if looks.terms:
        term = _first(looks.terms, asset.terms)
        if term is None:
            return None
        parts.append(f"it has the term {term}")
    if looks.values is not None:
        matched = looks.values.matched(asset.samples)
        if not matched:
            return None
        # The values themselves stay where they are: they may be what the tag protects.
        parts.append(f"{matched} of {len(asset.samples)} sampled values look like it")
    return ", and ".join(parts)


def read(declaration: Any) -> EnrichmentRule:
    """The checked rule. Raises pydantic's ValidationError, whose locations name the fields."""
    return EnrichmentRule.model_validate(declaration)


def _first(patterns: tuple[str, ...], values: tuple[str, ...]) -> str | None:
    lowered = [pattern.lower() for pattern in patterns]
    return next((value for value in values if any(fnmatchcase(value.lower(), one) for one in lowered)), None)
