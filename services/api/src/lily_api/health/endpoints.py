"""`/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, Field

from lily_api.health import service
from lily_api.services import ServicesDep

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: str = Field("ok", examples=["ok"])


class Ready(BaseModel):
    ready: bool = Field(examples=[True])
    checks: dict[str, str] = Field(examples=[{"kafka": "ok", "postgresql": "ok", "mongodb": "ok"}])


@router.get("/healthz", summary="Is the process alive")
async def healthz() -> Alive:
    return Alive(status="ok")


@router.get("/readyz", summary="Can it do its work", responses={503: {"model": Ready}})
async def readyz(lily: ServicesDep, response: Response) -> Ready:
    """200 when Kafka, PostgreSQL and MongoDB answer, else 503; each is named."""
    checks = await service.checks(lily)
    ready = all(outcome == "ok" for outcome in checks.values())
    if not ready:
        response.status_code = 503
    return Ready(ready=ready, checks=checks)


@router.get(
    "/metrics",
    summary="Metrics in Prometheus' text form",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
)
async def metrics() -> Response:
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
