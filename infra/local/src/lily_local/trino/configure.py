"""Trino's configuration for a stack: the lake as a catalog, and Lily as whom it asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from lily_local.components.model import Context
from lily_local.environment import HOST
from lily_local.files import write_atomic
from lily_local.trino import key

CATALOG = "lake"
Properties = Mapping[str, object]
#: property of Trino's OPA plugin -> Lily's endpoint
_QUESTIONS = {
    "opa.policy.uri": "allow",
    "opa.policy.batched-uri": "batch",
    "opa.policy.row-filters-uri": "row-filters",
    "opa.policy.column-masking-uri": "column-mask",
    "opa.policy.batch-column-masking-uri": "column-masks",
}


def folder(context: Context) -> Path:
    return context.config.run / "trino"


def write(context: Context, home: Path) -> Path:
    """Write every file; returns the main one. The API must be ready: it makes the key that Trino asks with."""
    made = folder(context)
    data = context.config.data("trino")
    (data / "catalog").mkdir(parents=True, exist_ok=True)
    files: dict[str, Properties] = {
        "config.properties": _server(context, home, made),
        "access-control.properties": _access(context, key.made(context)),
        f"catalog/{CATALOG}.properties": _lake(context, data),
        "catalog/scratch.properties": {"connector.name": "memory"},
    }
    for name, values in files.items():
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "".join(f"{key}={value}\n" for key, value in values.items()))
    return made / "config.properties"


def _server(context: Context, home: Path, made: Path) -> Properties:
    port = context.config.port("trino")
    return {
        "node.environment": "lily",
        "node.id": context.secrets.stack_id,
        "node.internal-address": HOST,
        "node.bind-ip": HOST,
        "plugin.dir": home / "plugin",
        "catalog.config-dir": made / "catalog",
        "access-control.config-files": made / "access-control.properties",
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": port,
        "discovery.uri": f"http://{HOST}:{port}",
        "query.max-memory": "400MB",
        "query.max-memory-per-node": "400MB",
        "memory.heap-headroom-per-node": "300MB",
        "catalog.management": "static",
        "web-ui.enabled": "false",
    }


def _access(context: Context, secret: str) -> Properties:
    """The key stands in the addresses: the plugin can be given no header."""
    base = f"http://{HOST}:{context.config.port('api')}/v1/opa/trino"
    asked = {name: f"{base}/{endpoint}?key={quote(secret, safe='')}" for name, endpoint in _QUESTIONS.items()}
    return {"access-control.name": "opa", **asked}


def _lake(context: Context, data: Path) -> Properties:
    return {
        "connector.name": "delta_lake",
        "hive.metastore": "file",
        "hive.metastore.catalog.dir": "local:///catalog",
        "fs.native-local.enabled": "true",
        "local.location": data,
        "fs.native-s3.enabled": "true",
        "s3.endpoint": f"http://{HOST}:{context.config.port('s3')}",
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
        "s3.aws-access-key": context.secrets.s3_access_key,
        "s3.aws-secret-key": context.secrets.s3_secret_key,
        "delta.register-table-procedure.enabled": "true",
        # A table's next version is looked for at every query: what was written a moment ago is read.
        "delta.metadata.cache-ttl": "0s",
    }
