"""What a tenant sets to have notices as tickets in a Jira Cloud project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, SecretStr, StringConstraints

from lily_connectors.contract import SinkConfig

#: Jira parts labels by white space.
Label = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^\S+$")]


class Config(SinkConfig):
    """A site, an account's API token, and the project that the tickets are made in."""

    kind: Literal["jira"] = "jira"
    url: str = Field(
        min_length=8,
        max_length=2048,
        pattern=r"^https?://[^/?#@\\\s]+/?$",
        description="The site, without a path",
        examples=["https://acme.atlassian.net"],
    )
    email: str = Field(
        max_length=254,
        pattern=r"^[^\s:@]+@[^\s:@]+$",
        description="E-mail address of the account whose token it is",
        examples=["lily@example.com"],
    )
    token: SecretStr = Field(
        min_length=8,
        max_length=4096,
        description="An API token of that account; kept encrypted and not shown again",
    )
    project: str = Field(
        max_length=255,
        pattern=r"^[A-Z][A-Z0-9_]*$",
        description="Key of the project, which its tickets' keys begin with",
        examples=["DATA"],
    )
    issue_type: str = Field(
        "Task", min_length=1, max_length=255, description="Name of the tickets' type in that project"
    )
    labels: list[Label] = Field(
        default_factory=list, max_length=16, description="Labels put on new tickets, beside Lily's own"
    )

    def urls(self) -> Mapping[str, str]:
        return {"url": self.url}
