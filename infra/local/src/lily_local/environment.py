"""The environment variables of the components, and `.lily/env`, the part of them a user's shell sources."""

from __future__ import annotations

import shlex

from lily_local.config import StackConfig
from lily_local.files import write_atomic
from lily_local.secrets import Secrets, signing_key_file

HOST = "127.0.0.1"
BUCKET = "lily-lake"
DATABASE = "lily"
POSTGRES_USER = "lily"
REPLICA_SET = "lily"
#: Who makes tables and views known to Trino; not an analyst.
TRINO_OPERATOR = "lily"

# A user's own settings that would send our components elsewhere.
_NOT_INHERITED = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "PYTHONSTARTUP")


def public(config: StackConfig, secrets: Secrets) -> dict[str, str]:
    """What `.lily/env` holds: addresses and credentials of the servers and the API."""
    values = {
        "LILY_URL": f"http://{HOST}:{config.port('api')}",
        "LILY_ADMIN_KEY": secrets.admin_key,
        "LILY_TENANT": secrets.tenant,
        "LILY_API_KEY": secrets.api_key,
        "KAFKA_BOOTSTRAP": f"{HOST}:{config.port('kafka')}",
        "MONGO_URI": f"mongodb://{HOST}:{config.port('mongo')}/?replicaSet={REPLICA_SET}",
        "POSTGRES_URI": f"postgresql://{POSTGRES_USER}:{secrets.postgres_password}"
        f"@{HOST}:{config.port('postgres')}/{DATABASE}",
        "S3_ENDPOINT": f"http://{HOST}:{config.port('s3')}",
        "S3_ACCESS_KEY": secrets.s3_access_key,
        "S3_SECRET_KEY": secrets.s3_secret_key,
        "LAKE_URI": f"s3a://{BUCKET}",
        "LILY_CONNECT_URL": _connect_url(config) if "connect" in config.components else "",
    }
    return {name: value for name, value in values.items() if value}


def _connect_url(config: StackConfig) -> str:
    return f"http://{HOST}:{config.port('connect')}"


def full(config: StackConfig, secrets: Secrets) -> dict[str, str]:
    """What every Lily component is started with (the Spark jobs get their jars on top)."""
    url = f"http://{HOST}:{config.port('api')}"
    return {
        **public(config, secrets),
        "LILY_MONGO_DATABASE": DATABASE,
        "LILY_ISSUER": url,
        "LILY_AUDIENCE": "lily",
        "LILY_SIGNING_KEY_FILE": str(signing_key_file(config.home)),
        "LILY_MASTER_KEY": secrets.master_key,
        "LILY_CHECKPOINT_DIR": str(config.data("checkpoints")),
        "LILY_ENFORCE_OPERATORS": TRINO_OPERATOR,
        # Receivers of the embedded stack run on this machine; nowhere else is loopback a legitimate target.
        "LILY_EGRESS_ALLOW": "127.0.0.0/8",
        # Whether it runs or not: it may be started later, beside an API that is up.
        "LILY_CONNECT_URL": _connect_url(config),
        "LILY_CONNECT_SECRETS_DIR": str(config.connect_secrets),
        # What has been removed stays in a volume until it is vacuumed; an erasure asks for that.
        "LILY_ERASE_VOLUMES_URL": f"http://{HOST}:{config.port('s3-master')}/vol/vacuum?garbageThreshold=0.0001",
        "AWS_REGION": "us-east-1",
    }


def inherited(environ: dict[str, str]) -> dict[str, str]:
    """The caller's environment without what would mislead a component."""
    return {name: value for name, value in environ.items() if name not in _NOT_INHERITED}


def write_env_file(config: StackConfig, secrets: Secrets) -> None:
    """Write `.lily/env` for `source`; only its owner may read it."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in public(config, secrets).items()]
    write_atomic(config.home / "env", "\n".join(lines) + "\n")
