"""Alembic's environment: runs on the connection that `run.py` hands over, or prints SQL offline."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine

from lily_api.migrations import models
from lily_common.config import settings


def run() -> None:
    connection = context.config.attributes.get("connection")
    if context.is_offline_mode():
        context.configure(
            url=settings().sqlalchemy_url(), target_metadata=models.METADATA, literal_binds=True
        )
        with context.begin_transaction():
            context.run_migrations()
    elif connection is not None:
        context.configure(connection=connection, target_metadata=models.METADATA, compare_type=True)
        with context.begin_transaction():
            context.run_migrations()
    else:  # the alembic command itself
        with create_engine(settings().sqlalchemy_url()).connect() as own:
            context.configure(connection=own, target_metadata=models.METADATA, compare_type=True)
            with context.begin_transaction():
                context.run_migrations()


run()
