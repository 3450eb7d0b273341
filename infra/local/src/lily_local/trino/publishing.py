"""Captured tables of the stack's own tenant, made known to its Trino as soon as they are in the lake."""

from __future__ import annotations

import time

from lily_local import environment, secrets
from lily_local.config import StackConfig
from lily_local.errors import UserError
from lily_local.trino.asking import as_user
from lily_local.trino.tables import Published, publish
from lily_spark.cdc.topics import Capture
from lily_spark.config import SparkSettings

_LOOK_SECONDS = 1.0


def published(config: StackConfig, tables: list[str], timeout: float) -> list[Published]:
    """How Trino names `cdc.<source>.<schema>.<table>`; waits at most `timeout` seconds for those that have no rows yet.

    Raises UserError naming the table that is not there or is none.
    """
    kept = secrets.ensure(config.home)
    settings = SparkSettings.model_validate(environment.full(config, kept))
    paths = [_path(kept.tenant, name) for name in tables]
    deadline = time.monotonic() + timeout
    made = []
    with as_user(config.port("trino"), environment.TRINO_OPERATOR) as cursor:
        for path in paths:
            while True:
                try:
                    made.append(publish(settings, cursor, path))
                    break
                except LookupError as missing:
                    if time.monotonic() > deadline:
                        raise UserError(f"{missing}; is it captured? see `lily connectors list`") from None
                time.sleep(_LOOK_SECONDS)
    return made


def _path(tenant: str, table: str) -> str:
    start, _, rest = table.partition(".")
    try:
        return Capture.of_topic(f"{start}.{tenant}.{rest}").path
    except ValueError:
        raise UserError(f"{table} is no captured table: cdc.<source>.<schema>.<table> is wanted") from None
