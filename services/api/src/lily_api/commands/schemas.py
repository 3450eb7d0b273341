"""What travels about commands."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field, JsonValue

from lily_api.schemas import Input, Output, example


class CommandName(StrEnum):
    """What the lake job can be asked to do."""

    REBUILD_MIRROR = "rebuild_mirror"
    COMPACT = "compact"


class CommandStatus(StrEnum):
    ACCEPTED = "accepted"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class CommandCreate(Input):
    model_config = example({"command": "rebuild_mirror"})

    command: CommandName = Field(
        description="`rebuild_mirror` brings the tenant's mirror in line with the lake and with the field policy; "
        "`compact` (operator only) folds the updates layer of the lake's state into its primary layer"
    )


class CommandView(Output):
    model_config = example(
        {
            "id": "cmd_5f0b9d3c7a1e4d2288aa10ce",
            "command": "rebuild_mirror",
            "args": {},
            "requested_by": "key:key_91d0c2aa34b85f6e7d1c0b2f",
            "status": "succeeded",
            "detail": {"assets": 1200, "removed": 3, "removal": "done"},
            "created_at": "2026-01-02T10:00:00Z",
            "updated_at": "2026-01-02T10:00:09Z",
        }
    )

    id: str
    command: str
    args: dict[str, Any]
    requested_by: str
    status: CommandStatus
    detail: JsonValue = Field(None, description="What the lake job says of it")
    created_at: datetime
    updated_at: datetime
