"""Peer (b): the service that one writes first: FastAPI, a model of the event, `aiokafka.send_and_wait`, an answer.

Run with `uvicorn tests.bench.peers.plain_service:app`; reads KAFKA_BOOTSTRAP and PEER_TOPIC.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

TOPIC = os.environ.get("PEER_TOPIC", "peer")


class Event(BaseModel):
    """A CloudEvent."""

    model_config = ConfigDict(extra="allow")

    specversion: str
    id: str
    source: str
    type: str
    time: str
    data: dict[str, Any]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AIOKafkaProducer(bootstrap_servers=os.environ["KAFKA_BOOTSTRAP"], acks="all") as producer:
        app.state.producer = producer
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/readyz")
async def ready() -> dict[str, str]:
    return {"status": "ok"}


@app.post("/v1/events", status_code=202)
async def send_events(event: Event) -> dict[str, str]:
    key = event.data["qualified_name"].encode()
    await app.state.producer.send_and_wait(TOPIC, value=orjson.dumps(event.model_dump()), key=key)
    return {"id": event.id, "status": "accepted"}
