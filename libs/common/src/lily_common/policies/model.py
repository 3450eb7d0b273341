"""A policy: tags, what they mean, for whom, and what comes first.

`docs/policies.md` says what each field is for and how one decision is made of many policies.
"""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lily_common.declaring import wrong
from lily_common.propagation.rules import TagPattern

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,62}$"
MAX_POLICIES = 500
PolicyName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
#: A user, group or role as the enforcing engine names it; `*` stands for any text.
PrincipalPattern = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f]+$")]
Expression = Annotated[str, StringConstraints(min_length=1, max_length=2_000, pattern=r"^[^;\x00]+$")]


class Action(StrEnum):
    """What a policy does with what bears its tags."""

    ALLOW = "allow"
    MASK = "mask"
    FILTER = "filter"
    DENY = "deny"
    NOTIFY = "notify"


class MaskKind(StrEnum):
    NULL = "null"
    CONSTANT = "constant"
    HASH = "hash"
    PARTIAL = "partial"
    SQL = "sql"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Mask(Strict):
    """How a value is shown instead."""

    kind: MaskKind = MaskKind.NULL
    constant: str | None = Field(None, max_length=1_000, description="The text that stands for every value")
    keep_first: int = Field(0, ge=0, le=100, description="Of a partial mask: characters shown at the start")
    keep_last: int = Field(0, ge=0, le=100, description="And at the end")
    expression: Expression | None = Field(
        None, description="SQL over `{column}`, in the dialect of the engine that enforces it"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.kind is MaskKind.CONSTANT) != (self.constant is not None):
            raise wrong("mask.constant", "goes with the kind constant, which needs it")
        if (self.kind is MaskKind.SQL) != (self.expression is not None):
            raise wrong("mask.expression", "goes with the kind sql, which needs it")
        if self.kind is MaskKind.PARTIAL and not (self.keep_first or self.keep_last):
            raise wrong("mask.keep_last", "a partial mask shows something: keep_first or keep_last")
        if self.expression is not None and "{column}" not in self.expression:
            raise wrong("mask.expression", "must say {column} where the masked column stands")
        return self


class Principals(Strict):
    """Whom a policy is about: anyone who is named in any of the lists."""

    users: tuple[PrincipalPattern, ...] = Field((), max_length=1_000)
    groups: tuple[PrincipalPattern, ...] = Field((), max_length=1_000)
    roles: tuple[PrincipalPattern, ...] = Field((), max_length=1_000)

    def __bool__(self) -> bool:
        return bool(self.users or self.groups or self.roles)

    def names(self, who: Who) -> bool:
        """Whether `who` is among them."""
        return _any([who.user], self.users) or _any(who.groups, self.groups) or _any(who.roles, self.roles)


class Who(Strict):
    """Who reads, as the enforcing engine says."""

    user: str
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class Policy(Strict):
    """One policy. `to` empty: everyone; `unless` takes out of it."""

    name: PolicyName
    description: str = Field("", max_length=2_000)
    tags: tuple[TagPattern, ...] = Field(
        min_length=1, max_length=100, description="What it is about: assets with any of them"
    )
    action: Action
    mask: Mask | None = None
    filter: Expression | None = Field(
        None, description="SQL condition on the rows that are shown, in the dialect of the engine"
    )
    to: Principals = Field(default_factory=Principals, description="Whom it is about; empty: everyone")
    unless: Principals = Field(default_factory=Principals, description="Who is spared")
    precedence: int = Field(0, ge=-1_000, le=1_000, description="The greater decides; of equals the stricter")
    mode: Literal["enforce", "dry_run"] = Field(
        "enforce", description="dry_run: what it would do is told and nothing is done"
    )
    enabled: bool = True

    @model_validator(mode="before")
    @classmethod
    def _default_mask(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("action") == Action.MASK:
            return {"mask": {}} | {
                key: value for key, value in given.items() if key != "mask" or value is not None
            }
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.action is Action.MASK) != (self.mask is not None):
            raise wrong("mask", "goes with the action mask, which needs it")
        if (self.action is Action.FILTER) != (self.filter is not None):
            raise wrong("filter", "goes with the action filter, which needs it")
        return self

    def about(self, tag: str) -> bool:
        return any(fnmatchcase(tag, pattern) for pattern in self.tags)

    def concerns(self, who: Who) -> bool:
        return (not self.to or self.to.names(who)) and not self.unless.names(who)


def read(declaration: Any) -> Policy:
    """The checked policy. Raises pydantic's ValidationError, whose locations name the fields."""
    return Policy.model_validate(declaration)


def _any(texts: Any, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, pattern) for text in texts for pattern in patterns)
