"""A tenant of a test: its subscriptions, its notices, what its receivers got."""

from __future__ import annotations

import secrets
from typing import Any

from tests.integration.egress.conftest import ControlPlane
from tests.support.egress import notify
from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack


class Tenant:
    """A tenant of the test, and what it does."""

    def __init__(self, servers: Stack, control: ControlPlane, receiver: ReceiverProcess) -> None:
        self.name = f"t-{secrets.token_hex(5)}"
        self.servers = servers
        self.control = control
        self.receiver = receiver
        self.bootstrap = servers.environment["KAFKA_BOOTSTRAP"]
        control.made("POST", "/v1/tenants", json={"id": self.name})

    def call(self, method: str, path: str, **more: Any) -> Any:
        return self.control.made(method, path, tenant=self.name, **more)

    def subscribe(self, hook: str | None = None, *, url: str | None = None, **fields: Any) -> dict[str, Any]:
        """A webhook to the receiver's path `hook` (prefixed by the tenant), which checks its signatures."""
        sink = {"kind": "webhook", "url": url or self.receiver.url(f"{self.name}-{hook}")}
        made: dict[str, Any] = self.call(
            "POST", "/v1/subscriptions", json={"name": "test", "sink": sink, **fields}
        )
        if url is None:
            self.receiver.tell(f"{self.name}-{hook}", secret=made["secret"])
        return made

    def notify(self, *events: dict[str, Any], copies: int = 2) -> None:
        notify(self.bootstrap, self.name, events, copies=copies)

    def arrivals(self, hook: str) -> list[Any]:
        return self.receiver.arrivals(f"{self.name}-{hook}")

    def told(self, hook: str) -> list[tuple[str, str | None]]:
        """(transition, tag) of what arrived."""
        return [
            (a.body["transition"], a.body["data"].get("tag")) for a in self.arrivals(hook) if a.status < 300
        ]

    def deliveries(self, **query: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.call("GET", "/v1/deliveries", params=query)["items"]
        return items

    def settled(
        self, subscription: dict[str, Any], count: int, status: str = "delivered"
    ) -> list[dict[str, Any]]:
        """The subscription's deliveries once `count` of them have `status`; oldest first."""

        def done() -> list[dict[str, Any]] | None:
            found = self.deliveries(subscription=subscription["id"], status=status)
            return found[::-1] if len(found) >= count else None

        return until(done, f"{count} {status}", deadline=40)
