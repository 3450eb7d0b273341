"""What travels about connectors."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lily_api.schemas import Input, Name, Output

MAX_GRACE_SECONDS = 30 * 24 * 3600
Status = Literal["active", "paused"]
_CONFIG: dict[str, Any] = {"namespace": "postgres://shop-db:5432"}


class KindView(BaseModel):
    """One kind of connector; `config_schema` is the JSON Schema that `config` has to fit."""

    kind: str = Field(examples=["montecarlo"])
    title: str = Field(examples=["Monte Carlo"])
    summary: str
    direction: Literal["inbound", "outbound", "both"]
    webhook: bool = Field(description="Whether the vendor calls a URL that Lily gives out")
    event_types: list[str] = Field(description="What the vendor may send")
    needs_secret: bool = Field(description="Whether calls are signed with a secret")
    config_schema: dict[str, Any]


class KindList(BaseModel):
    items: list[KindView]


class ConnectorCreate(Input):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "montecarlo", "name": "Monte Carlo", "config": _CONFIG}]}
    )

    kind: str = Field(max_length=64, examples=["montecarlo"])
    name: Name = Field(description="Unique in the tenant", examples=["Monte Carlo"])
    config: dict[str, Any] = Field(default_factory=dict, description="As the kind's `config_schema` has it")
    secret: SecretStr | None = Field(
        None,
        min_length=16,
        max_length=512,
        description="The vendor's secret, where the vendor gives it out; made up by Lily when missing",
    )


class ConnectorPatch(Input):
    """An absent field stays as it is; `config` is replaced as a whole."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "paused"}]})

    name: Name | None = None
    config: dict[str, Any] | None = None
    status: Status | None = None


class SecretRotate(Input):
    model_config = ConfigDict(json_schema_extra={"examples": [{"grace_seconds": 86400}]})

    secret: SecretStr | None = Field(None, min_length=16, max_length=512, description="Made up when missing")
    grace_seconds: int = Field(
        86_400,
        ge=0,
        le=MAX_GRACE_SECONDS,
        description="How long the old secret stays valid beside the new one",
    )


class ConnectorView(Output):
    id: str = Field(examples=["con_0f3a5c7e9b1d2f4a6c8e0b2d"])
    kind: str = Field(examples=["montecarlo"])
    name: str = Field(examples=["Monte Carlo"])
    direction: Literal["inbound", "outbound", "both"]
    config: dict[str, Any] = Field(examples=[_CONFIG])
    status: Status
    webhook_url: str | None = Field(
        None, examples=["https://lily.example.com/webhooks/con_0f3a5c7e9b1d2f4a6c8e0b2d"]
    )
    created_by: str
    created_at: datetime
    updated_at: datetime


class TaskView(BaseModel):
    id: int = Field(examples=[0])
    state: str = Field(examples=["running"])
    error: str | None = Field(None, description="What ended it, without the stack")


class ConnectorStatus(BaseModel):
    """How a connector does. Those that are called, or that call, have no tasks."""

    id: str = Field(examples=["con_0f3a5c7e9b1d2f4a6c8e0b2d"])
    wanted: Status = Field(description="What the connector was told")
    state: str = Field(
        description="`pending` until it has been carried out; `running`, `paused`, `failed`, `unassigned`, "
        "`restarting` or `stopped` as Kafka Connect says; `retrying` when tasks run but do not "
        "get all that they should, as `problem` says; `unknown` when Connect does not answer",
        examples=["running"],
    )
    settled: bool = Field(description="Whether what is wanted has been carried out")
    problem: str | None = Field(None, description="Why not, or what has failed")
    tasks: list[TaskView] = Field(default_factory=list)
    looked_at: datetime | None = Field(None, description="Of a kept database: when it was last gone through")
    problems: list[str] = Field(
        default_factory=list, description="Of a kept database: what is not as policies want it"
    )
    drift: list[str] = Field(
        default_factory=list,
        description="Of a kept database: what somebody else had changed and was put right last",
    )
    topics: list[str] = Field(
        default_factory=list,
        description="Topics that hold what came",
        examples=[["cdc.acme.shop.public.orders"]],
    )


class ConnectorRemoved(BaseModel):
    """What became of a source of change data."""

    id: str = Field(examples=["con_0f3a5c7e9b1d2f4a6c8e0b2d"])
    removed: bool = Field(description="Whether all of it is gone; if not, Lily goes on removing it")
    detail: str = Field(description="What is left, and how to remove it by hand")


class ConnectorCreated(ConnectorView):
    secret: str | None = Field(None, description="The signing secret: shown this once, kept encrypted")
