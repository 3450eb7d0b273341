"""What a tenant sets to have notices in a Slack channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr

from lily_connectors.contract import SinkConfig


class Config(SinkConfig):
    """An incoming webhook of a Slack app (or of anything that takes Slack's form, such as Mattermost)."""

    kind: Literal["slack"] = "slack"
    url: SecretStr = Field(
        min_length=8,
        max_length=2048,
        description="The incoming-webhook URL. Whoever has it can post, so it is kept encrypted and not shown again",
        examples=["https://hooks.slack.com/services/T000/B000/XXXX"],
    )

    def urls(self) -> Mapping[str, str]:
        return {"url": self.url.get_secret_value()}
