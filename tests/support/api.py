"""The API in the test's own process, over a real PostgreSQL; what it sends to Kafka is kept in a list.

For tests of the control plane alone. What has to do with Kafka's or MongoDB's behaviour is tested on the stack.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI

from lily_common.config import Settings
from lily_common.errors import UnavailableError
from lily_common.kafka import Record

ADMIN_KEY = "operator-" + secrets.token_hex(16)


class RecordingProducer:
    """Acknowledges everything at once, or nothing while `broken`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.broken = False

    async def send(self, records: Sequence[Record], *, seconds: float | None = None) -> None:
        if self.broken:
            raise UnavailableError("Kafka did not acknowledge: broken on purpose")
        self.records.extend(records)

    @property
    def queued(self) -> int:
        return 0

    def partitions(self, topic: str, timeout: float = 2.0) -> int:
        return 4

    def close(self, timeout: float = 10.0) -> int:
        return 0


def signing_key_pem() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def api_settings(postgres_uri: str, **overrides: Any) -> Settings:
    values: dict[str, Any] = {
        "POSTGRES_URI": postgres_uri,
        "KAFKA_BOOTSTRAP": "127.0.0.1:1",
        "MONGO_URI": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200",
        "LAKE_URI": "/nowhere/lily-lake",  # a lake without tables
        "LILY_ADMIN_KEY": ADMIN_KEY,
        "LILY_URL": "http://lily.test",
        "LILY_DEV_SIGNING_KEY": True,
        "LILY_MASTER_KEY": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        **overrides,
    }
    return Settings(**values)


@dataclass
class Api:
    """A running API and the calls that every test needs."""

    app: FastAPI
    client: httpx.AsyncClient
    producer: RecordingProducer
    tenants: list[str] = field(default_factory=list)

    def operator(self, tenant: str | None = None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        return headers | ({"X-Lily-Tenant": tenant} if tenant else {})

    async def tenant(self) -> str:
        """A new tenant's id."""
        name = "t-" + secrets.token_hex(6)
        answer = await self.client.post("/v1/tenants", json={"id": name}, headers=self.operator())
        assert answer.status_code == 201, answer.text
        self.tenants.append(name)
        return name

    async def key(self, tenant: str, *scopes: str, **more: Any) -> dict[str, Any]:
        """A new key of that tenant, as the API shows it once."""
        body = {"name": "test", "scopes": list(scopes), **more}
        answer = await self.client.post("/v1/keys", json=body, headers=self.operator(tenant))
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    async def admin(self, tenant: str | None = None) -> dict[str, str]:
        """Headers of an administrator of a tenant (a new one when not given)."""
        return bearer((await self.key(tenant or await self.tenant(), "admin"))["key"])


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


@asynccontextmanager
async def running_api(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """The whole application with its lifespan, without a socket."""
    from lily_api import app as api_app
    from lily_api import services

    producer = RecordingProducer()
    monkeypatch.setattr(services, "Producer", lambda _bootstrap: producer)
    # These consumers have no broker here, and stopping them would wait for it. The others connect at their first use.
    consumers = (
        api_app.command_results.running,
        api_app.table_refreshes.running,
        api_app.erasure_progress.running,
    )
    quiet = [run for run in api_app.BACKGROUND if run not in consumers]
    monkeypatch.setattr(api_app, "BACKGROUND", quiet)
    app = api_app.create_app(settings)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://lily.test") as client,
    ):
        yield Api(app, client, producer)
