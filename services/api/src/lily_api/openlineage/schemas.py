"""What travels over OpenLineage's API."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

EXAMPLE: dict[str, Any] = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-15T18:10:00Z",
    "producer": "https://example.com/etl",
    "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
    "run": {"runId": "01945d0e-5d4b-7f4c-9b1a-3c2f0b8a6d11"},
    "job": {"namespace": "shop", "name": "orders_daily"},
    "inputs": [{"namespace": "postgres://shop-db:5432", "name": "shop.public.orders"}],
    "outputs": [{"namespace": "postgres://shop-db:5432", "name": "shop.marts.orders_daily"}],
}


class LineageAnswer(BaseModel):
    status: Literal["accepted"]
    changes: int = Field(description="How many changes the event made")


class BatchSummary(BaseModel):
    received: int
    successful: int
    failed: int
    retriable: int
    non_retriable: int


class FailedEvent(BaseModel):
    index: int
    reason: str
    retriable: bool


class BatchAnswer(BaseModel):
    status: Literal["success", "partial_success", "failure"]
    summary: BatchSummary
    failed_events: list[FailedEvent]
