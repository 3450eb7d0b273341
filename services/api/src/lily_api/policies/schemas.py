"""What travels about policies."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import Field

from lily_api.schemas import Input, Output, Text, example
from lily_common.policies.model import NAME_PATTERN, Mask, Policy

PolicyName = Annotated[str, Path(pattern=NAME_PATTERN, description="The policy's name")]
EXAMPLE: dict[str, Any] = {
    "description": "Analysts see no personal data",
    "tags": ["PII"],
    "action": "mask",
    "mask": {"kind": "hash"},
    "unless": {"groups": ["stewards"]},
}
EXAMPLE_YAML = """\
description: Analysts see no personal data
tags: [PII]
action: mask
mask: {kind: hash}
unless: {groups: [stewards]}
"""
_Name = Annotated[Text, Field(min_length=1, max_length=256)]


class PolicyView(Output):
    name: str = Field(examples=["mask-personal-data"])
    version: int = Field(examples=[1])
    policy: Policy = Field(examples=[EXAMPLE | {"name": "mask-personal-data"}])
    created_by: str
    created_at: datetime
    updated_at: datetime


class DecideRequest(Input):
    """Who reads what. Of `qualified_name` the tags are those that it has now; others may be supposed beside them."""

    model_config = example(
        {
            "qualified_name": "postgres://shop-db:5432/shop/public/customers/email",
            "user": "ann",
            "groups": ["analysts"],
        }
    )

    qualified_name: Text | None = Field(None, max_length=2048)
    tags: list[_Name] = Field(default_factory=list, max_length=100)
    user: _Name
    groups: list[_Name] = Field(default_factory=list, max_length=100)
    roles: list[_Name] = Field(default_factory=list, max_length=100)
    suppose: list[Policy] = Field(
        default_factory=list,
        max_length=20,
        description="Policies as if they were declared so: what would be decided then",
    )


class ReasonView(Output):
    policy: str
    action: str
    tag: str
    precedence: int
    decisive: bool


class DecisionView(Output):
    action: Literal["allow", "mask", "deny"]
    mask: Mask | None
    filters: list[str] = Field(description="Conditions that must all hold for a row to be shown")
    tags: list[str] = Field(description="The tags that were looked at")
    reasons: list[ReasonView]
    would: list[ReasonView] = Field(description="What policies in dry run would have done")
