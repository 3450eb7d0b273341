"""Bring the database up to date. Several processes may start at once: one migrates, the others wait for it."""

from __future__ import annotations

from pathlib import Path

import stamina
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError

from lily_common.config import Settings
from lily_common.logs import get_logger

log = get_logger(__name__)
#: Key of the advisory lock that the migrating process holds.
_LOCK = 0x6C696C79


def alembic_config(settings: Settings) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    # '%' begins an interpolation in Alembic's configuration.
    config.set_main_option("sqlalchemy.url", settings.sqlalchemy_url().replace("%", "%%"))
    return config


def upgrade(settings: Settings, revision: str = "head", *, wait_seconds: float = 60) -> None:
    """Migrate to `revision`. Waits for a server that is starting; OperationalError when it does not come."""
    engine = create_engine(settings.sqlalchemy_url())
    try:
        for attempt in stamina.retry_context(
            on=OperationalError, timeout=wait_seconds, attempts=None, wait_max=2.0
        ):
            with attempt, engine.connect() as connection:
                _upgrade(connection, settings, revision)
    finally:
        engine.dispose()


def _upgrade(connection: Connection, settings: Settings, revision: str) -> None:
    # Held by the session, not a transaction: the migrations commit on the same connection.
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
    connection.commit()
    try:
        config = alembic_config(settings)
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
        connection.commit()
    log.info("database is up to date", revision=revision)
