"""Sends events to Lily's API for connectors that ask a source: in batches, compressed, again when told to."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
import stamina

from lily_connectors.inbound import Event

BATCH = 500
_AGAIN = frozenset({429, 502, 503, 504})
_MAX_SHOWN = 20


class RefusedError(Exception):
    """The API will not take this, now or later (wrong key, wrong URL); the text says why."""


class _TryAgainError(Exception):
    """The API said to come back, or did not answer; nothing is claimed."""


@dataclass
class Sent:
    """What became of the events. `problems` shows the first rejected ones: (event, reason)."""

    accepted: int = 0
    rejected: int = 0
    problems: list[tuple[Event, str]] = field(default_factory=list)


class Sender:
    """A client of `POST /v1/events`. Use it as a context manager."""

    def __init__(self, url: str, api_key: str, *, timeout: float = 30.0, attempts: int = 8) -> None:
        self._client = httpx.Client(
            base_url=url.rstrip("/"), headers={"Authorization": f"Bearer {api_key}"}, timeout=timeout
        )
        self._attempts = attempts

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send_all(self, events: Iterable[Event], progress: Callable[[int], None] | None = None) -> Sent:
        """Send everything, `BATCH` at a time, in order; `progress` gets the number sent so far.

        Raises RefusedError, and httpx.HTTPError when the API stays away after all attempts.
        """
        sent = Sent()
        for batch in _batches(events):
            self._count(sent, batch, self._send(batch))
            if progress is not None:
                progress(sent.accepted + sent.rejected)
        return sent

    @staticmethod
    def _count(sent: Sent, batch: list[Event], answer: dict[str, Any]) -> None:
        sent.accepted += answer["accepted"]
        sent.rejected += answer["rejected"]
        for item in answer["items"] if answer["rejected"] else ():
            if item["status"] == "rejected" and len(sent.problems) < _MAX_SHOWN:
                sent.problems.append((batch[item["index"]], item["problem"]["detail"]))

    def _send(self, batch: list[Event]) -> dict[str, Any]:
        body = gzip.compress(orjson.dumps(batch), compresslevel=1)
        for attempt in stamina.retry_context(
            on=(_TryAgainError, httpx.TransportError), attempts=self._attempts, timeout=None, wait_max=10
        ):
            with attempt:
                return self._post(body)
        raise AssertionError("stamina either returns or raises")

    def _post(self, body: bytes) -> dict[str, Any]:
        headers = {"Content-Type": "application/cloudevents-batch+json", "Content-Encoding": "gzip"}
        response = self._client.post("/v1/events", content=body, headers=headers)
        if response.status_code in _AGAIN:
            raise _TryAgainError(f"the API answered {response.status_code}")
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if isinstance(answer, dict) and "items" in answer:
            return answer
        detail = answer.get("detail") if isinstance(answer, dict) else response.text[:200]
        raise RefusedError(f"{response.url} answered {response.status_code}: {detail}")


def _batches(events: Iterable[Event]) -> Iterator[list[Event]]:
    iterator = iter(events)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch
