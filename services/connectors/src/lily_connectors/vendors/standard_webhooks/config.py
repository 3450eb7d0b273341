"""Configuration of a Standard Webhooks sender."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lily_connectors.config import ConnectorConfig


class Config(ConnectorConfig):
    """Nothing has to be set: the sender speaks Lily's events."""

    needs_secret: ClassVar[bool] = True
    makes_secret: ClassVar[bool] = True

    description: str = Field("", max_length=1000, description="What sends here, for people")
