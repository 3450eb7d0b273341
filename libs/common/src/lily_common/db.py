"""PostgreSQL through SQLAlchemy 2: the one metadata, the engine, and the one place that scopes a query to a tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, TypeVar

from sqlalchemy import DateTime, MetaData, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.sql import Delete, Select, Update

from lily_common.config import Settings

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base of every table. Texts are `text`, times are `timestamptz`, dicts are `jsonb`."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: DateTime(timezone=True),
        str: Text(),
        dict[str, Any]: JSONB(),
        list[str]: JSONB(),
    }


class TenantOwned:
    """Mixin of every table whose rows belong to one tenant; queries on it go through `tenant_scope`."""

    tenant: Mapped[str] = mapped_column(Text, index=True)


Statement = TypeVar("Statement", Select[Any], Update, Delete)


def tenant_scope(statement: Statement, model: type[TenantOwned], tenant: str) -> Statement:
    """The statement restricted to `tenant`'s rows: the only place where that restriction is written."""
    return statement.where(model.tenant == tenant)


def make_engine(settings: Settings, *, pool_size: int = 8) -> AsyncEngine:
    return create_async_engine(
        settings.sqlalchemy_url(), pool_size=pool_size, max_overflow=pool_size, pool_pre_ping=True
    )


def make_sessions(engine: AsyncEngine) -> async_sessionmaker[AsyncSession]:
    return async_sessionmaker(engine, expire_on_commit=False)
