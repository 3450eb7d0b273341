"""Files that the load generator and the receiver leave behind, and how the ledger reads them. JSON, one object a line.

Plan (made before the run): `{"due": seconds from the start, "chain": text or null, "tenant", "events": [...]}`.
Journal of the load: `{"sent": i, "at"}` before request i of the plan first leaves, then `{"acked": i, "n": [positions],
"at", "attempts"}` for the items that were accepted, or `{"refused": i, "status", "body"}`. Its first line holds
`{"start": ns}`: request i is intended for start + due. Journal of the receiver: one `Arrival` a line.
All `at` and `start` are `time.time_ns()`, one clock for all processes of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.support.ledger import Identity, Ledger, Receipt


@dataclass(frozen=True, slots=True)
class Request:
    """One POST of the plan. Requests of one chain leave one after the other, each when the one before is answered."""

    due: float
    tenant: str
    events: list[dict[str, Any]]
    chain: str | None = None

    def line(self) -> bytes:
        return orjson.dumps(
            {"due": self.due, "chain": self.chain, "tenant": self.tenant, "events": self.events}
        )


@dataclass(frozen=True, slots=True)
class Arrival:
    """One POST at the receiver. `name` is its path, `valid` the signature's verdict (null where there is none)."""

    name: str
    at: int
    headers: dict[str, str]
    body: dict[str, Any]
    status: int
    valid: bool | None

    def receipt(self) -> Receipt:
        """As the ledger takes it; for webhooks that carry the CloudEvent."""
        identity = Identity(self.body["tenantid"], self.body["source"], self.body["id"])
        delivery = self.headers.get("webhook-id", "")
        return Receipt(self.name, delivery, identity, self.body, self.at, self.valid is not False)


def write_plan(path: Path, requests: Iterable[Request]) -> int:
    """Write them in order of `due`; returns how many."""
    ordered = sorted(requests, key=lambda request: request.due)
    path.write_bytes(b"".join(request.line() + b"\n" for request in ordered))
    return len(ordered)


def read_plan(path: Path) -> list[Request]:
    return [Request(**line) for line in lines(path)]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every complete line of the file; a last one that is being written is left out."""
    if not path.exists():
        return
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    for line in whole.split(b"\n"):
        if line:
            yield orjson.loads(line)


def read_arrivals(path: Path) -> list[Arrival]:
    return [Arrival(**line) for line in lines(path)]


def replay(ledger: Ledger, plan: list[Request], journal: Path) -> None:
    """Tell the ledger what the load generator did. Raises AssertionError for a request that was refused for good."""
    for line in lines(journal):
        if "sent" in line:
            request = plan[line["sent"]]
            for event in request.events:
                ledger.sent(request.tenant, event)
        elif "acked" in line:
            request = plan[line["acked"]]
            for position in line["n"]:
                event = request.events[position]
                ledger.acknowledged(Identity(request.tenant, event["source"], event["id"]))
        elif "refused" in line:
            raise AssertionError(f"refused: {line['status']} {line['body']}")
