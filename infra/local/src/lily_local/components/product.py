"""Lily's own processes, each a Python module run with the stack's environment."""

from __future__ import annotations

import sys

from lily_local.components.model import Component, Context
from lily_local.components.probes import http_ok
from lily_local.environment import HOST

_STORES = ("kafka", "mongo", "postgres")


def _module(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


def _api(context: Context) -> list[str]:
    address = ["--host", HOST, "--port", str(context.config.port("api"))]
    return _module("lily_api", "serve", "--no-migrate", *address)  # `migrations` has been before it


def _metrics_port(name: str, context: Context) -> dict[str, str]:
    return {"LILY_METRICS_PORT": str(context.config.port(f"{name}-metrics"))}


def _worker(
    name: str,
    module: str,
    needs: tuple[str, ...],
    *,
    on_spark: bool = False,
) -> Component:
    """A process without a door of its own: it tells its readiness on its metrics port."""
    return Component(
        name=name,
        command=lambda _: _module(module, name),
        env=lambda context: _metrics_port(name, context),
        ready=lambda context: http_ok(context.config.port(f"{name}-metrics"), "/readyz"),
        needs=needs,
        ports=(f"{name}-metrics",),
        module=module,
        jar_sets=("spark",) if on_spark else (),
        needs_java=on_spark,
        start_timeout=240 if on_spark else 120,
        stop_timeout=40,
    )


TOPICS = Component(
    name="topics",
    command=lambda _: _module("lily_common.topics", "apply"),
    needs=("kafka",),
    module="lily_common.topics",
    one_shot=True,
)

MIGRATIONS = Component(
    name="migrations",
    command=lambda _: _module("lily_api", "migrate"),
    needs=("postgres",),
    module="lily_api",
    one_shot=True,
)

API = Component(
    name="api",
    command=_api,
    env=lambda context: _metrics_port("api", context),
    ready=lambda context: http_ok(context.config.port("api"), "/readyz"),
    needs=("topics", "migrations", *_STORES),
    ports=("api",),
    module="lily_api",
)

EGRESS = _worker("egress", "lily_connectors", ("topics", "migrations"))

FANOUT = _worker("fanout", "lily_spark", ("topics",), on_spark=True)
LAKE = _worker("lake", "lily_spark", ("topics", "mongo", "s3"), on_spark=True)
