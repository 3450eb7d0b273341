"""What a running API holds: its settings and its connections, built once in the lifespan and handed to endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from lily_api.auth.authenticator import Authenticator
from lily_api.auth.tokens import TokenSigner
from lily_common.config import Settings
from lily_common.crypto import SecretBox
from lily_common.db import make_engine
from lily_common.kafka import Producer
from lily_common.tenancy import guarded_sessions

Thing = TypeVar("Thing")


@dataclass
class Services:
    """Connections and shared objects of one API process. `db` is the PostgreSQL session factory.

    Write in one transaction: `async with services.db.begin() as session: …`; read: `async with services.db() as …`.
    """

    settings: Settings
    db: async_sessionmaker[AsyncSession]
    producer: Producer
    mongo: AsyncDatabase[dict[str, Any]]
    secrets: SecretBox
    signer: TokenSigner
    authenticator: Authenticator
    _things: dict[type[Any], Any] = field(default_factory=dict)

    def put(self, thing: object) -> None:
        """Keep a domain's own per-process object; one per type."""
        self._things[type(thing)] = thing

    def get(self, kind: type[Thing]) -> Thing:
        """The object that `put` kept; KeyError when there is none."""
        thing: Thing = self._things[kind]
        return thing


@asynccontextmanager
async def build(settings: Settings) -> AsyncIterator[Services]:
    """Connect to everything, and close it all at the end. ValueError says which setting is missing or wrong."""
    secrets = SecretBox(settings.master_key_bytes)
    signer = TokenSigner.from_settings(settings)
    engine = make_engine(settings)
    sessions = guarded_sessions(engine)
    mongo: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
        settings.mongo_uri.get_secret_value(), serverSelectionTimeoutMS=3000, tz_aware=True
    )
    producer = Producer(settings.kafka_bootstrap)
    authenticator = Authenticator(settings, sessions, signer)
    try:
        async with authenticator.running():
            yield Services(
                settings=settings,
                db=sessions,
                producer=producer,
                mongo=mongo[settings.mongo_database],
                secrets=secrets,
                signer=signer,
                authenticator=authenticator,
            )
    finally:
        producer.close()
        await mongo.close()
        await engine.dispose()


def services(request: Request) -> Services:
    """FastAPI dependency: `lily: ServicesDep`."""
    held: Services = request.app.state.lily
    return held


ServicesDep = Annotated[Services, Depends(services)]
