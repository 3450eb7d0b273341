"""A tenant as its own people see it: its key, its calls to the API."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.support.ledger import TAG_TYPES, Ledger
from tests.support.receiver import ReceiverProcess

SOURCE = "/tests"
#: Statuses after which a client sends the same again.
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_counter = itertools.count()


def event(kind: str, data: Mapping[str, Any], **attributes: Any) -> dict[str, Any]:
    """A CloudEvent of type `lily.<kind>` with an id of its own and a time later than all before it."""
    moment = datetime.now(UTC) + timedelta(microseconds=next(_counter) % 1000)
    made = {
        "specversion": "1.0",
        "id": uuid.uuid4().hex,
        "source": SOURCE,
        "type": f"lily.{kind}",
        "time": moment.isoformat(),
        "data": dict(data),
    }
    return made | attributes


@dataclass
class Tenant:
    """One tenant. `ledger` hears of every event that `send` gets accepted."""

    id: str
    key: str = field(repr=False)
    url: str
    ledger: Ledger = field(default_factory=Ledger, repr=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.key}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False)

    def get(self, path: str, **params: Any) -> Any:
        """The answer's JSON. Raises AssertionError for anything but 200, so that `until` tries again."""
        answer = self.client.get(path, params=params)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def send(self, *events: Mapping[str, Any]) -> None:
        """Send one event or a batch, again and again until all are accepted (at most a minute)."""
        identities = [self.ledger.sent(self.id, item) for item in events]
        answer = self._post(events)
        assert answer.status_code == 202, f"{answer.status_code} {answer.text[:2000]}"
        for identity in identities:
            self.ledger.acknowledged(identity)

    def _post(self, events: Sequence[Mapping[str, Any]]) -> httpx.Response:
        media = "application/cloudevents+json" if len(events) == 1 else "application/cloudevents-batch+json"
        body: Any = events[0] if len(events) == 1 else list(events)
        deadline = time.monotonic() + 60
        while True:
            try:
                answer = self.client.post("/v1/events", json=body, headers={"Content-Type": media})
                if answer.status_code not in _AGAIN or time.monotonic() > deadline:
                    return answer
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def subscribe(
        self,
        name: str,
        receiver: ReceiverProcess,
        *,
        types: Sequence[str] = (),
        kind: str = "webhook",
        **more: Any,
    ) -> str:
        """A subscription to a path of the receiver, which is told the secret to check with; returns its id.

        The path is the tenant's and the name. A webhook for all types without filters is owed every tag change.
        """
        path = self.path(name)
        body = {"name": name, "types": list(types), "sink": {"kind": kind, "url": receiver.url(path)}, **more}
        answer = self.client.post("/v1/subscriptions", json=body)
        assert answer.status_code == 201, answer.text
        made = answer.json()
        if made.get("secret"):
            receiver.tell(path, secret=made["secret"])
        if kind == "webhook" and not more.get("filters") and (not types or set(types) >= TAG_TYPES):
            self.ledger.subscribe(path, self.id)
        return str(made["id"])

    def path(self, name: str) -> str:
        return f"{self.id}-{name}"
