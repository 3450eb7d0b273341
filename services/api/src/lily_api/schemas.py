"""Types that several domains' schemas share: texts that PostgreSQL can hold, names, pages, problem details."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

Item = TypeVar("Item")
TENANT_PATTERN = r"^[a-z][a-z0-9-]{1,38}[a-z0-9]$"


def _storable(value: str) -> str:
    # PostgreSQL's text cannot hold NUL, and UTF-8 cannot hold a lone surrogate.
    if any(char == "\x00" or 0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise ValueError("must not hold NUL characters or lone surrogates")
    return value


#: Any text that can be stored.
Text = Annotated[str, AfterValidator(_storable)]
#: A name for people: one line, 1 to 200 characters, any script.
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True, pattern=r"^[^\x00-\x1f\x7f]*$"),
    AfterValidator(_storable),
]
TenantId = Annotated[str, StringConstraints(pattern=TENANT_PATTERN)]
#: An identifier that Lily gave out, as a path parameter: `key_…`, `client_…`.
ObjectId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Identifier given by Lily")]


class Input(BaseModel):
    """Base of request bodies: an unknown field is an error, so that a typing mistake is not silently ignored."""

    model_config = ConfigDict(extra="forbid")


class Output(BaseModel):
    """Base of responses, readable straight from a row."""

    model_config = ConfigDict(from_attributes=True)


class Page(Output, Generic[Item]):
    """One page of a list; `next_cursor` is null on the last one."""

    items: list[Item]
    next_cursor: str | None = Field(None, description="Pass as `cursor` to get the next page")


class ProblemField(BaseModel):
    """One wrong field."""

    field: str = Field(examples=["body.name"])
    message: str = Field(examples=["String should have at least 1 character"])


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    type: str = Field(examples=["urn:lily:problem:invalid-input"])
    title: str = Field(examples=["Invalid input"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["the request has 1 wrong field"])
    instance: str | None = Field(None, examples=["/v1/keys"])
    errors: list[ProblemField] | None = None


def example(value: dict[str, Any]) -> ConfigDict:
    """Model configuration that carries one example into the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [value]})
