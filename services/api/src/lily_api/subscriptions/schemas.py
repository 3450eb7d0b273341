"""What travels about subscriptions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, WithJsonSchema

from lily_api.schemas import Input, Name, Output, example
from lily_common.events import FANOUT_TYPES, TAG_ATTACHED, TAG_DETACHED
from lily_connectors.egress.retry import RetryPolicy
from lily_connectors.sinks.catalogue import sinks
from lily_connectors.sinks.kafka import KafkaConfig

MAX_GRACE_SECONDS = 30 * 24 * 3600
_WEBHOOK = {"kind": "webhook", "url": "https://hooks.example.com/lily"}
_FILTERS = [{"exact": {"data.tag": "PII"}}]
_TYPES = [TAG_ATTACHED, TAG_DETACHED]


def _sink_schema() -> dict[str, Any]:
    """One of the sinks' configurations, by `kind`; the managed topic cannot be asked for."""
    schemas = []
    for kind, sink in sorted(sinks().items()):
        if kind == KafkaConfig().kind:
            continue
        schema = sink.config_model.model_json_schema()
        schema["required"] = sorted({"kind", *schema.get("required", [])})
        schemas.append(schema)
    return {"oneOf": schemas, "examples": [_WEBHOOK]}


SinkFields = Annotated[dict[str, Any], WithJsonSchema(_sink_schema())]
Types = Annotated[
    list[Annotated[str, Field(max_length=200, json_schema_extra={"enum": list(FANOUT_TYPES)})]],
    Field(max_length=50, description="Event types; none means every type that is carried", examples=[_TYPES]),
]
Filters = Annotated[
    list[dict[str, Any]],
    Field(
        max_length=20,
        description="All must hold. Dialects of the CloudEvents Subscriptions API: `exact`, `prefix`, `suffix`, `all`, "
        "`any`, `not`. Beside attributes, `data.<field>` names a field of the payload",
        examples=[_FILTERS],
    ),
]
TimeoutSeconds = Annotated[float, Field(ge=1, le=60, description="How long one attempt may take, in seconds")]


class SubscriptionCreate(Input):
    model_config = example({"name": "mask PII", "sink": _WEBHOOK, "types": _TYPES, "filters": _FILTERS})

    name: Name = Field(examples=["mask PII"])
    sink: SinkFields
    types: Types = Field(default_factory=list)
    filters: Filters = Field(default_factory=list)
    retry: RetryPolicy = Field(default_factory=RetryPolicy)
    timeout_seconds: TimeoutSeconds = 15


class SubscriptionPatch(Input):
    """Absent and null fields stay. `sink` is replaced as a whole; its kind cannot change."""

    model_config = example(
        {"filters": [{"any": [{"exact": {"data.tag": "PII"}}, {"exact": {"data.tag": "GDPR"}}]}]}
    )

    name: Name | None = None
    sink: SinkFields | None = None
    types: Types | None = None
    filters: Filters | None = None
    retry: RetryPolicy | None = None
    timeout_seconds: TimeoutSeconds | None = None


class SubscriptionView(Output):
    id: str = Field(examples=["sub_0f3a5c7e9b1d2f4a6c8e0b2d"])
    name: str
    kind: str = Field(examples=["webhook"])
    managed: bool = Field(description="Made with the tenant, for its own Kafka topic; it can be paused only")
    sink: dict[str, Any] = Field(
        validation_alias="config", description="Secrets are masked", examples=[_WEBHOOK]
    )
    types: list[str]
    filters: list[dict[str, Any]]
    retry: RetryPolicy
    timeout_seconds: float
    status: str = Field(description="`active`, `paused` or `disabled`", examples=["active"])
    status_reason: str | None = Field(description="Why it is disabled")
    created_at: datetime
    updated_at: datetime


class SubscriptionCreated(SubscriptionView):
    secret: str | None = Field(
        None,
        description="The signing secret (Standard Webhooks), shown this once; null for sinks that are not signed",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )


class SecretRotate(Input):
    model_config = example({"grace_seconds": 86400})

    grace_seconds: int = Field(
        86_400,
        ge=0,
        le=MAX_GRACE_SECONDS,
        description="How long deliveries carry a signature by the old secret beside the new one",
    )


class SecretRotated(Output):
    secret: str = Field(examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
    previous_until: datetime | None = Field(description="Until when the old secret signs too")


class TestSent(Output):
    delivery_id: UUID = Field(description="Follow it at /v1/deliveries/{delivery_id}")


class Replayed(Output):
    replayed: int = Field(description="Dead deliveries that are tried again", examples=[3])
