"""What travels about commands."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, JsonValue

from lily_api.replays.schemas import ReplayArgs
from lily_api.schemas import Input, Output, example
from lily_common.gold.spec import NAME_PATTERN


class CommandName(StrEnum):
    """What the lake job can be asked to do. The arguments of each are in `ARGS`."""

    REBUILD_MIRROR = "rebuild_mirror"
    COMPACT = "compact"
    REFRESH_TABLE = "refresh_table"
    CHECK_TABLE = "check_table"
    PLAN_TABLE = "plan_table"
    EXPLAIN_TABLE = "explain_table"
    REPLAY = "replay"


class CommandStatus(StrEnum):
    ACCEPTED = "accepted"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class NoArgs(Input):
    """For commands that take nothing."""


class TableArgs(Input):
    table: Annotated[str, Field(pattern=NAME_PATTERN, description="Name of a declared or built-in table")]


class RefreshTableArgs(TableArgs):
    full: bool = Field(False, description="Recompute every row, compare and repair")


class CheckTableArgs(TableArgs):
    repair: bool = Field(True, description="Put right what differs")


#: What each command takes as `args`.
ARGS: dict[CommandName, type[Input]] = {
    CommandName.REBUILD_MIRROR: NoArgs,
    CommandName.COMPACT: NoArgs,
    CommandName.REFRESH_TABLE: RefreshTableArgs,
    CommandName.CHECK_TABLE: CheckTableArgs,
    CommandName.PLAN_TABLE: TableArgs,
    CommandName.EXPLAIN_TABLE: TableArgs,
    CommandName.REPLAY: ReplayArgs,
}


class CommandCreate(Input):
    model_config = example({"command": "rebuild_mirror"})

    command: CommandName = Field(
        description="`rebuild_mirror` brings the tenant's mirror in line with the lake and with the field policy; "
        "`compact` (operator only) folds the updates layer of the lake's state into its primary layer; "
        "`refresh_table` {table, full}, `check_table` {table, repair}, `plan_table` {table} and `explain_table` "
        "{table} are about incremental tables; `replay` {from, to, types, assets, to_subscription | to_topic, rate, "
        "filter} sends events of the past again, to one target"
    )
    args: dict[str, JsonValue] = Field(
        default_factory=dict, max_length=50, description="The command's arguments", examples=[{}]
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
