"""Settings of every Lily process, read from the environment; the variable names are the public contract."""

from __future__ import annotations

import base64
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """One process's view of the world. Secrets are `SecretStr`, so that no log or repr shows them."""

    model_config = SettingsConfigDict(extra="ignore", case_sensitive=True, populate_by_name=True)

    kafka_bootstrap: str = Field("127.0.0.1:9092", alias="KAFKA_BOOTSTRAP")
    mongo_uri: SecretStr = Field(SecretStr("mongodb://127.0.0.1:27017/?replicaSet=lily"), alias="MONGO_URI")
    mongo_database: str = Field("lily", alias="LILY_MONGO_DATABASE")
    postgres_uri: SecretStr = Field(
        SecretStr("postgresql://lily:lily@127.0.0.1:5432/lily"), alias="POSTGRES_URI"
    )
    s3_endpoint: str = Field("http://127.0.0.1:8333", alias="S3_ENDPOINT")
    s3_access_key: SecretStr = Field(SecretStr(""), alias="S3_ACCESS_KEY")
    s3_secret_key: SecretStr = Field(SecretStr(""), alias="S3_SECRET_KEY")
    lake_uri: str = Field("s3a://lily-lake", alias="LAKE_URI")
    checkpoint_dir: Path = Field(Path(".lily/checkpoints"), alias="LILY_CHECKPOINT_DIR")
    spark_jars: str = Field("", alias="LILY_SPARK_JARS", description="Comma-separated jar paths")
    spark_driver_memory: str = Field("768m", alias="LILY_SPARK_DRIVER_MEMORY")

    url: str = Field("http://127.0.0.1:8080", alias="LILY_URL")
    issuer: str = Field("", alias="LILY_ISSUER", description="JWT issuer; LILY_URL when empty")
    audience: str = Field("lily", alias="LILY_AUDIENCE")
    admin_key: SecretStr = Field(SecretStr(""), alias="LILY_ADMIN_KEY")
    signing_key_file: Path | None = Field(None, alias="LILY_SIGNING_KEY_FILE")
    dev_signing_key: bool = Field(
        False, alias="LILY_DEV_SIGNING_KEY", description="Sign with a key made at start when there is no file"
    )
    token_seconds: int = Field(900, alias="LILY_TOKEN_SECONDS", ge=10, le=900)
    max_concurrency: int = Field(
        512, alias="LILY_MAX_CONCURRENCY", ge=1, description="Requests in flight per process before 503"
    )
    master_key: SecretStr = Field(SecretStr(""), alias="LILY_MASTER_KEY", description="base64 of 32 bytes")
    connect_url: str = Field(
        "",
        alias="LILY_CONNECT_URL",
        description="REST address of Kafka Connect; empty: no change data capture",
    )
    connect_secrets_dir: Path | None = Field(
        None,
        alias="LILY_CONNECT_SECRETS_DIR",
        description="Folder that Connect's workers read as well, under the same path: passwords of sources",
    )
    capture_look_seconds: float = Field(
        30,
        alias="LILY_CAPTURE_LOOK_SECONDS",
        ge=1,
        description="Between two looks at a source of change data with which all is well",
    )
    enforce_stale_seconds: float = Field(
        10,
        alias="LILY_ENFORCE_STALE_SECONDS",
        ge=2,
        description="Tags that may be older than this are not relied on by enforcement",
    )
    enforce_operators: str = Field(
        "",
        alias="LILY_ENFORCE_OPERATORS",
        description="Comma-separated users of engines who may do what masks do not reach: register tables, read their logs",
    )
    egress_allow: str = Field("", alias="LILY_EGRESS_ALLOW", description="Comma-separated CIDRs")
    metrics_port: int = Field(0, alias="LILY_METRICS_PORT", description="0: no metrics server")
    max_body_bytes: int = Field(8 * 1024 * 1024, alias="LILY_MAX_BODY_BYTES")
    dedupe_days: int = Field(7, alias="LILY_DEDUPE_DAYS", ge=1)
    tombstone_days: int = Field(30, alias="LILY_TOMBSTONE_DAYS", ge=1)
    mirror_days: int = Field(90, alias="LILY_MIRROR_DAYS", ge=1)
    log_level: str = Field("INFO", alias="LILY_LOG_LEVEL")

    @property
    def jwt_issuer(self) -> str:
        return self.issuer or self.url

    @property
    def master_key_bytes(self) -> bytes:
        """The 32-byte key-encryption key; raises ValueError when it is missing or of another length."""
        raw = base64.b64decode(self.master_key.get_secret_value() or "", validate=True)
        if len(raw) != 32:
            raise ValueError("LILY_MASTER_KEY must be the base64 text of exactly 32 bytes")
        return raw

    @property
    def enforce_operator_names(self) -> frozenset[str]:
        return frozenset(_listed(self.enforce_operators))

    @property
    def egress_allow_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        return tuple(map(ip_network, _listed(self.egress_allow)))

    def sqlalchemy_url(self) -> str:
        """POSTGRES_URI for SQLAlchemy's psycopg 3 dialect (sync and async alike)."""
        return self.postgres_uri.get_secret_value().replace("postgresql://", "postgresql+psycopg://", 1)

    def lake_table(self, name: str) -> str:
        """URI of a Delta table for Spark, e.g. `bronze/events` -> `s3a://lily-lake/bronze/events`."""
        return f"{self.lake_uri.rstrip('/')}/{name}"


def _listed(text: str) -> list[str]:
    """The parts of a comma-separated setting."""
    return [part for each in text.split(",") if (part := each.strip())]


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read once."""
    return Settings()
