"""Step 4: `customers.email` becomes PII; a webhook receiver and a Slack-shaped one are told, and how fast."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from lily_cli import events
from lily_cli.client import LilyClient
from lily_local.demo.checks import DemoError, require, until
from lily_local.demo.receivers import Received, Receiver

TAG = "PII"
SECONDS = 30
_QUIET_SECONDS = 1.0
_TYPES = ["lily.classification.attached", "lily.classification.detached"]
_HOPS = ("accepted_at", "noticed_at", "consumed_at", "committed_at", "sent_at")


@dataclass(frozen=True)
class Told:
    """One change on its way to one receiver: the event, and when each hop was passed, in order."""

    change: str
    receiver: str
    event_id: str
    hops: dict[str, datetime]

    def milliseconds(self) -> dict[str, float]:
        """Since the POST was sent, by hop."""
        start = self.hops["posted"]
        return {name: (at - start).total_seconds() * 1000 for name, at in self.hops.items()}

    @property
    def total(self) -> float:
        """Milliseconds from the POST sent to the notice received."""
        return self.milliseconds()["received"]


@dataclass(frozen=True)
class Notices:
    """What step 4 proved: every change with its way, and the ids of the events that were sent."""

    told: list[Told]
    event_ids: list[str]


class Subscriber:
    """A receiver with its subscription to the tag."""

    def __init__(self, client: LilyClient, kind: str, receiver: Receiver) -> None:
        self.kind = kind
        self.receiver = receiver
        answer = client.post(
            "/v1/subscriptions",
            {
                "name": f"{TAG} to {kind}",
                "sink": {"kind": kind, "url": receiver.url},
                "types": _TYPES,
                "filters": [{"exact": {"data.tag": TAG}}],
            },
        )
        self.id: str = answer["id"]
        self.secret: str | None = answer["secret"]

    def check(self, call: Received, event: dict[str, Any]) -> None:
        """That the call tells this event in the receiver's form, and is signed where it has to be."""
        if self.kind == "webhook":
            self._check_webhook(call, event)
        else:
            self._check_slack(call, event)

    def _check_webhook(self, call: Received, event: dict[str, Any]) -> None:
        require(self.secret, "the webhook subscription has no secret")
        try:
            told = Webhook(self.secret or "").verify(call.body, call.headers)
        except (WebhookVerificationError, ValueError) as wrong:
            raise DemoError(f"the webhook's signature does not verify: {wrong}") from None
        require(told["id"] == event["id"], f"the webhook told event {told['id']}, not {event['id']}")
        require(told["type"] == event["type"], f"the webhook told a {told['type']}, not a {event['type']}")

    def _check_slack(self, call: Received, event: dict[str, Any]) -> None:
        message = call.json()
        require(message.get("text") and message.get("blocks"), "what Slack received is no Block Kit message")
        text = str(message["text"])
        require(TAG in text and "email" in text, f"Slack's message does not say what happened: {text}")
        require(event["id"] in str(message["blocks"]), "Slack's message does not name its event")


def check(client: LilyClient, column: str, webhook: Receiver, slack: Receiver) -> Notices:
    """Attach, assert again, detach, attach: the three transitions are told, the repetition is not."""
    subscribers = [Subscriber(client, "webhook", webhook), Subscriber(client, "slack", slack)]
    told: list[Told] = []
    event_ids: list[str] = []
    for change in ("attached", "attached again", "detached", "attached"):
        event = events.make(
            f"lily.classification.{change.split()[0]}",
            {"qualified_name": column, "tag": TAG, "reason": "holds addresses of people"},
            source="urn:lily:demo",
        )
        event_ids.append(event["id"])
        posted, acknowledged = _post(client, event)
        if change == "attached again":
            _check_silence(subscribers, len(told) // len(subscribers))
            continue
        expected = len(told) // len(subscribers) + 1
        for subscriber in subscribers:
            call = subscriber.receiver.wait_for(expected, SECONDS)[-1]
            subscriber.check(call, event)
            hops = {"posted": posted, **_hops(client, subscriber, event), "received": call.at}
            told.append(Told(change, subscriber.kind, event["id"], _in_order(hops, acknowledged)))
    return Notices(told, event_ids)


def _post(client: LilyClient, event: dict[str, Any]) -> tuple[datetime, datetime]:
    """(when it was sent, when the answer came that Kafka has it)."""
    posted = datetime.now(UTC)
    item = client.send_events([event])["items"][0]
    acknowledged = datetime.now(UTC)
    require(item["status"] == "accepted", f"the tag was not accepted: {item}")
    return posted, acknowledged


def _check_silence(subscribers: list[Subscriber], expected: int) -> None:
    """Nobody is told what they know: no further call comes for a while."""
    time.sleep(_QUIET_SECONDS)
    for subscriber in subscribers:
        count = len(subscriber.receiver.calls)
        require(count == expected, f"a tag asserted again was told again to {subscriber.kind}")


def _hops(client: LilyClient, subscriber: Subscriber, event: dict[str, Any]) -> dict[str, datetime]:
    """When the hops were passed, as the deliveries API has it."""

    def delivered() -> dict[str, Any] | None:
        wanted = {"subscription": subscriber.id, "event_id": event["id"]}
        rows = list(client.pages("/v1/deliveries", wanted, limit=2))
        require(len(rows) < 2, f"event {event['id']} has several deliveries to {subscriber.kind}")
        return rows[0] if rows and rows[0]["status"] == "delivered" else None

    row = until(f"the delivery to {subscriber.kind}", delivered, SECONDS)
    times = {name: row["hops"][name] for name in _HOPS}
    missing = [name for name, at in times.items() if at is None]
    require(not missing, f"the delivery to {subscriber.kind} has no {', '.join(missing)}")
    return {name.removesuffix("_at"): datetime.fromisoformat(at) for name, at in times.items()}


def _in_order(hops: dict[str, datetime], acknowledged: datetime) -> dict[str, datetime]:
    """The hops with Kafka's acknowledgement where it belongs: the notice may well be ahead of the answer to the POST."""
    named = {**hops, "acknowledged": acknowledged}
    return dict(sorted(named.items(), key=lambda item: item[1]))
