"""Knobs of erasing."""

from __future__ import annotations

from functools import lru_cache

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class EraseSettings(BaseSettings):
    model_config = SettingsConfigDict(extra="ignore", case_sensitive=True)

    grace_seconds: float = Field(
        60,
        alias="LILY_ERASE_GRACE_SECONDS",
        ge=2,
        description="How long a reader may go on with files that an erasure has replaced; longer than a batch takes",
    )
    oplog_bytes: int = Field(
        512 * 1024 * 1024,
        alias="LILY_ERASE_OPLOG_BYTES",
        ge=0,
        description="An oplog of at most this size is filled up, so that what was erased leaves it at once",
    )
    volumes_url: str = Field(
        "",
        alias="LILY_ERASE_VOLUMES_URL",
        description="Called when files have been removed, e.g. SeaweedFS's /vol/vacuum?garbageThreshold=0.0001",
    )


@lru_cache(maxsize=1)
def erase_settings() -> EraseSettings:
    """The process's settings, read once."""
    return EraseSettings()
