"""What a tenant sets for a database whose privileges follow its tags."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lily_connectors.config import ConnectorConfig
from lily_connectors.debezium.config import DatabaseName, Host, Password, User
from lily_connectors.enforcing.wanted import Reader

#: A name of PostgreSQL's: at most 63 bytes, of which a view's schema needs two and an underscore.
_Identifier = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[^\x00-\x1f\x7f\"]+$")]
_Group = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_MOST_BYTES = 63


class ReaderConfig(BaseModel):
    """One role, and the groups that policies know it by."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: _Identifier = Field(description="Name of the role", examples=["analyst"])
    groups: tuple[_Group, ...] = Field(
        (), max_length=100, description="Groups that policies know it by", examples=[["analysts"]]
    )


class Config(ConnectorConfig):
    """The role `user` has to own the tables, or to be a member of their owner. `password` is kept encrypted, apart."""

    host: Host = Field(description="Host name or address of the database", examples=["shop-db.example.com"])
    port: int = Field(5432, ge=1024, le=65535, description="Port of the server")
    database: DatabaseName = Field(description="Name of the database", examples=["shop"])
    user: User = Field(description="Role that changes privileges", examples=["lily"])
    password: Password = Field(description="The role's password")
    tls: Literal["prefer", "disable", "require", "verify-full"] = Field(
        "prefer", description="As PostgreSQL's sslmode; `verify-full` proves the server's name"
    )
    schemas: tuple[_Identifier, ...] = Field(
        ("public",), min_length=1, max_length=100, description="Schemas whose tables are kept"
    )
    readers: tuple[ReaderConfig, ...] = Field(
        min_length=1,
        max_length=50,
        description="Roles that policies are about; all others are left alone",
        examples=[[{"role": "analyst", "groups": ["analysts"]}]],
    )
    enforce: Literal["views", "columns"] = Field(
        "views", description="By views that mask, or by privileges on columns alone"
    )
    asset: str | None = Field(
        None,
        min_length=1,
        max_length=1_500,
        description="The database's qualified name; postgres://<host>:<port>/<database> when missing",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        roles = [reader.role for reader in self.readers]
        if len(roles) != len(set(roles)):
            raise ValueError("readers: each role once")
        for schema in self.schemas if self.enforce == "views" else ():
            for role in roles:
                if len(f"{schema}_{role}".encode()) > _MOST_BYTES:
                    raise ValueError(f"{schema}_{role} is too long for the name of a schema")
        return self

    @property
    def root(self) -> str:
        """The qualified name that the tables' names begin with."""
        return self.asset or f"postgres://{self.host}:{self.port}/{self.database}"

    def named_readers(self) -> tuple[Reader, ...]:
        return tuple(Reader(reader.role, reader.groups) for reader in self.readers)
