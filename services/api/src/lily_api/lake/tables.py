"""Delta tables opened once and kept current, and scans of them that let files and row groups be skipped."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lily_common.config import Settings
from lily_common.errors import FieldError, InvalidInputError, UnavailableError
from lily_common.logs import get_logger

log = get_logger(__name__)
EVENTS = "bronze/events"
ASSETS = "silver/assets"
PAST = "silver/past"


def storage_options(settings: Settings) -> dict[str, str]:
    """S3 settings for deltalake; none for a lake on a local disk."""
    if not settings.lake_uri.startswith("s3"):
        return {}
    return {
        "AWS_ENDPOINT_URL": settings.s3_endpoint,
        "AWS_ACCESS_KEY_ID": settings.s3_access_key.get_secret_value(),
        "AWS_SECRET_ACCESS_KEY": settings.s3_secret_key.get_secret_value(),
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": str(settings.s3_endpoint.startswith("http://")).lower(),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        "connect_timeout": "3s",
        "timeout": "20s",
        "max_retries": "2",
        "retry_timeout": "10s",
    }


def literal(text: str) -> str:
    """A SQL string literal. In the scan's dialect only the quote is special; control characters stay out of it."""
    return "'" + re.sub(r"[\x00-\x1f]", "", text).replace("'", "''") + "'"


def past_not_kept(reason: str) -> InvalidInputError:
    """What was asked of the past is not there any more."""
    return InvalidInputError(f"as_of {reason}", [FieldError("query.as_of", reason)], code="past-not-kept")


class Tables:
    """The lake's tables, by name. Blocking: call it from a thread. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._options = storage_options(settings)
        self._open: dict[str, DeltaTable] = {}
        self._lock = threading.Lock()

    def scan(self, table: str, columns: list[str], predicate: str) -> Iterator[tuple[Any, ...]]:
        """The matching rows of the table's newest version, in no order; none when there is no such table yet.

        Raises UnavailableError when the lake does not answer.
        """
        try:
            with self._lock:
                handle = self._current(table)
                batches = handle.scan(columns=columns, predicate=predicate) if handle is not None else ()
            for batch in batches:
                yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        except (DeltaError, OSError) as failed:
            raise self._unavailable(table, failed) from failed

    def transaction(self, table: str, app_id: str) -> int | None:
        """The version of the last commit under `app_id`; None when there is none. Raises as `scan` does."""
        try:
            with self._lock:
                handle = self._current(table)
                return handle.transaction_version(app_id) if handle is not None else None
        except (DeltaError, OSError) as failed:
            raise self._unavailable(table, failed) from failed

    def files(self, table: str) -> pa.Table | None:
        """The log's entry of each file of the newest version, statistics as columns; None when there is no table yet.

        Raises UnavailableError when the lake does not answer.
        """
        try:
            with self._lock:
                handle = self._current(table)
                return pa.table(handle.get_add_actions(flatten=True)) if handle is not None else None
        except (DeltaError, OSError) as failed:
            raise self._unavailable(table, failed) from failed

    @contextmanager
    def snapshot(self, table: str, at: datetime | None = None) -> Iterator[DeltaTable | None]:
        """A table of the caller's own to query: as it is, or as it was at that time; None when there is none.

        What fails inside is told as the lake not answering, and, of a past time, as the past not kept: its files go
        with VACUUM, its versions with the clean-up of the log.
        """
        try:
            try:
                opened = DeltaTable(self._uri(table), storage_options=self._options)
            except TableNotFoundError:
                yield None
                return
            if at is not None:
                opened.load_as_version(at)
            yield opened
        except InvalidInputError:
            raise
        except Exception as failed:
            gone = isinstance(failed, FileNotFoundError) or "not found" in str(failed).lower()
            if at is not None and gone:
                raise past_not_kept("is longer ago than the table's files are kept") from failed
            raise self._unavailable(table, failed) from failed

    def _unavailable(self, table: str, failed: Exception) -> UnavailableError:
        with self._lock:
            self._open.pop(table, None)
        log.warning("the lake is not answering", table=table, error=str(failed)[:500])
        return UnavailableError("the lake is not answering, try again")

    def _current(self, table: str) -> DeltaTable | None:
        held = self._open.get(table)
        if held is not None:
            held.update_incremental()
            return held
        try:
            opened = DeltaTable(self._uri(table), storage_options=self._options)
        except TableNotFoundError:
            return None
        self._open[table] = opened
        return opened

    def _uri(self, table: str) -> str:
        return re.sub(r"^s3an?://|^s3n://", "s3://", self._settings.lake_table(table))
