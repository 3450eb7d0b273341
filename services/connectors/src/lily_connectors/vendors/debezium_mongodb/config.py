"""What a tenant sets for a MongoDB source."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, model_validator

from lily_connectors.debezium.config import DatabaseName, Password, SourceConfig, Tables, User

ReplicaSet = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Config(SourceConfig):
    """The server has to be a member of a replica set (one is enough). The user needs `read` and `changeStream`."""

    scheme: ClassVar[str] = "mongodb"

    port: int = Field(27017, ge=1024, le=65535, description="Port of the server")
    replica_set: ReplicaSet | None = Field(
        None, description="Name of the replica set; none for a router of a sharded cluster", examples=["rs0"]
    )
    collections: Tables = Field(
        description="Collections to read, as `database.collection`; `database.*` is all of the database",
        examples=[["shop.orders"]],
    )
    user: User | None = Field(None, description="User, where the server wants one")
    password: Password | None = Field(None, description="The user's password")
    auth_database: DatabaseName = Field("admin", description="Database that knows the user")
    tls: bool = Field(False, description="Whether to connect over TLS, which proves the server's name")

    def captured(self) -> list[str]:
        return self.collections

    @model_validator(mode="after")
    def _user_and_password(self) -> Config:
        if (self.user is None) is not (self.password is None):
            raise ValueError("give both user and password, or neither")
        return self
