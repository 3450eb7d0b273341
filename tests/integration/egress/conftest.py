"""Real Kafka and PostgreSQL, the worker in its own process, the control plane in the test's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.api import RecordingProducer
from tests.support.egress import EgressProcess
from tests.support.stack import Stack, running_stack

from lily_api import services
from lily_api.app import create_app
from lily_common.config import Settings


@pytest.fixture(scope="package")
def servers() -> Iterator[Stack]:
    with running_stack("kafka", "postgres", "topics", "migrations") as running:
        yield running


@pytest.fixture(scope="package")
def egress_environment(servers: Stack) -> dict[str, str]:
    return {**servers.environment, "LILY_EGRESS_ALLOW": "127.0.0.0/8", "LILY_LOG_LEVEL": "INFO"}


class ControlPlane:
    """The API over the real PostgreSQL, called without a socket. Its writes to Kafka are kept in memory."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._app = create_app(settings)
        self._context = self._app.router.lifespan_context(self._app)
        self.settings = settings
        self._admin = settings.admin_key.get_secret_value()
        self._run(self._context.__aenter__())

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self._run(self._context.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def call(self, method: str, path: str, *, tenant: str | None = None, **more: Any) -> httpx.Response:
        """As the operator, for `tenant`."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://lily.test") as client:
                headers = {"Authorization": f"Bearer {self._admin}", **more.pop("headers", {})}
                if tenant is not None:
                    headers["X-Lily-Tenant"] = tenant
                return await client.request(method, path, headers=headers, **more)

        answer: httpx.Response = self._run(send())
        return answer

    def made(self, method: str, path: str, *, tenant: str | None = None, **more: Any) -> Any:
        """The JSON of an answer that must be a success."""
        answer = self.call(method, path, tenant=tenant, **more)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None


@pytest.fixture(scope="package")
def control(egress_environment: dict[str, str]) -> Iterator[ControlPlane]:
    patch = pytest.MonkeyPatch()
    patch.setattr(services, "Producer", lambda _bootstrap: RecordingProducer())
    plane = ControlPlane(Settings(**egress_environment))  # type: ignore[arg-type]
    yield plane
    plane.close()
    patch.undo()


@pytest.fixture(scope="module")
def egress(
    egress_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EgressProcess]:
    """A running worker."""
    process = EgressProcess(egress_environment, Path(tmp_path_factory.mktemp("egress")) / "log")
    process.start()
    yield process
    assert process.process is not None
    if process.process.poll() is None:
        assert process.stop() == 0, process.log_tail()
