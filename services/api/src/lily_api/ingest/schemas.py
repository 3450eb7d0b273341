"""What travels over `/v1/events`. The models are the OpenAPI's; the hot path writes the same shapes by hand."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lily_api.schemas import Problem

EXAMPLE: dict[str, Any] = {
    "specversion": "1.0",
    "id": "scan-42",
    "source": "/scanner",
    "type": "lily.classification.attached",
    "time": "2026-01-15T18:10:00Z",
    "data": {
        "qualified_name": "postgres://shop-db:5432/shop/public/customers/email",
        "tag": "PII",
        "origin": "scanner",
    },
}


class CloudEvent(BaseModel):
    """A CloudEvent 1.0 in JSON. `type` decides the form of `data`; other attributes (extensions) are kept."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [EXAMPLE]})

    specversion: Literal["1.0"]
    id: str = Field(min_length=1, max_length=1024, description="With `source` the event's identity")
    source: str = Field(min_length=1, max_length=1024, description="URI reference of who says so")
    type: str = Field(description="One of Lily's types, e.g. `lily.asset.upserted`")
    time: str | None = Field(None, description="RFC 3339 with offset; when missing, the time of acceptance")
    subject: str | None = Field(None, description="When given: the payload's qualified name")
    sequence: str | int | None = Field(None, description="Orders events of the same time, up to 20 digits")
    data: dict[str, Any] = Field(description="The payload; unknown fields are kept")


class Accepted(BaseModel):
    """One event that Kafka has acknowledged."""

    id: str
    status: Literal["accepted"]
    lane: Literal["priority", "bulk"]
    topic: str


class ItemResult(BaseModel):
    """What became of one item of a batch; `problem` says why it was rejected."""

    index: int = Field(description="Its place in the batch, from 0")
    id: str | None
    status: Literal["accepted", "rejected"]
    lane: Literal["priority", "bulk"] | None = None
    problem: Problem | None = None


class BatchResult(BaseModel):
    """The answer to a batch: 202 when all are accepted, 207 when some, 422 when none is."""

    accepted: int
    rejected: int
    items: list[ItemResult]
