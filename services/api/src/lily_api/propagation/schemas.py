"""What travels about propagation."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import Field

from lily_api.schemas import Input, Output, example
from lily_common.propagation.rules import NAME_PATTERN, Rule

RuleName = Annotated[str, Path(pattern=NAME_PATTERN, description="The rule's name")]
MAX_CHANGES = 100
EXAMPLE: dict[str, Any] = {
    "description": "Personal data stays personal data",
    "classifications": ["PII", "GDPR*"],
    "along": ["table", "column", "children"],
    "max_depth": 20,
    "stop_at": ["Anonymised"],
}
EXAMPLE_YAML = """\
description: Personal data stays personal data
classifications: [PII, GDPR*]
along: [table, column, children]
stop_at: [Anonymised]
"""


class RuleView(Output):
    name: str = Field(examples=["personal-data"])
    version: int = Field(examples=[1])
    rule: Rule = Field(examples=[EXAMPLE | {"name": "personal-data"}])
    created_by: str
    created_at: datetime
    updated_at: datetime


class Change(Input):
    """A change as it would be sent to `/v1/events`, without its envelope."""

    type: str = Field(examples=["lily.classification.attached"], max_length=100)
    data: dict[str, Any] = Field(
        examples=[{"qualified_name": "postgres://shop/shop/public/customers/email", "tag": "PII"}]
    )


class PreviewRequest(Input):
    """What is supposed: changes, or a rule declared as given, or both."""

    model_config = example(
        {
            "changes": [
                {
                    "type": "lily.classification.attached",
                    "data": {"qualified_name": "postgres://shop/shop/public/customers/email", "tag": "PII"},
                }
            ]
        }
    )

    changes: list[Change] = Field(default_factory=list, max_length=MAX_CHANGES)
    rule: Rule | None = None


class PreviewedChange(Output):
    qualified_name: str
    operation: Literal["attached", "detached"]
    tag: str = Field(description="The tag, or the property that travels")
    rule: str
    origin: str
    path: list[str] = Field(description="Assets from the origin to here; empty for what would be taken back")


class Preview(Output):
    attached: int
    detached: int
    assets: int = Field(description="Assets that would be concerned, beside those changed themselves")
    changes: list[PreviewedChange] = Field(description="The nearest first, at most 1,000 of them")
