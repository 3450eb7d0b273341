"""Notices as Block Kit messages: what happened, to which asset, why.

Limits by Slack: header 150 characters, a field's text 2000, ten fields a section (https://docs.slack.dev/block-kit).
Slack answers 200 `ok`; 429 carries Retry-After; 410 (`channel_is_archived`) ends the subscription like any 410.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

import orjson
from slack_sdk.models.blocks import (
    Block,
    ContextBlock,
    HeaderBlock,
    MarkdownTextObject,
    PlainTextObject,
    SectionBlock,
)

from lily_common import events as ev
from lily_connectors.contract import HttpRequest, HttpSink, OutboundNotice
from lily_connectors.vendors.slack.config import Config

_HEADER = 150
_FIELD = 500
Event = dict[str, Any]


def escape(text: object) -> str:
    """Slack's three control characters (`&`, `<`, `>`), so that no payload can mention, link or format."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _name(subject: str) -> str:
    """The last two steps of a qualified name, e.g. `customers.email`."""
    return ".".join(subject.rpartition("://")[2].split("/")[-2:])


def _tag(event: Event) -> str:
    done = "tagged" if event["type"] == ev.TAG_ATTACHED else "no longer tagged"
    return f"{_name(event['subject'])} is {done} {event['data'].get('tag')}"


def _incident(event: Event) -> str:
    what = event["data"].get("title") or event["data"].get("incident_id")
    return f"Incident {event['type'].rsplit('.', 1)[1]} on {_name(event['subject'])}: {what}"


def _field(event: Event) -> str:
    return f"{event['type'].split('.')[1].capitalize()} changed on {_name(event['subject'])}"


def _inherited(event: Event) -> str:
    return f"{str(event['data']['property']).capitalize()} by lineage changed on {_name(event['subject'])}"


_HEADLINES: dict[str, Callable[[Event], str]] = {
    ev.TAG_ATTACHED: _tag,
    ev.TAG_DETACHED: _tag,
    ev.INCIDENT_OPENED: _incident,
    ev.INCIDENT_UPDATED: _incident,
    ev.INCIDENT_RESOLVED: _incident,
    ev.OWNER_CHANGED: _field,
    ev.DESCRIPTION_CHANGED: _field,
    ev.TERM_CHANGED: _field,
    ev.PROPERTY_INHERITED: _inherited,
    ev.ASSET_DELETED: lambda event: f"{_name(event['subject'])} was deleted",
}
#: Payload fields worth a line of their own, with their labels.
_DETAILS = {
    "tag": "Tag",
    "value": "Value",
    "origin": "Origin",
    "origin_asset": "From",
    "rule": "Rule",
    "severity": "Severity",
    "status": "Status",
    "owners": "Owners",
    "terms": "Terms",
    "description": "Description",
    "reason": "Reason",
}


def headline(event: Event) -> str:
    """One plain sentence; also what a notification shows."""
    make = _HEADLINES.get(event["type"])
    return make(event) if make is not None else f"{event['type']} on {event.get('subject', '')}"


def _details(event: Event) -> list[tuple[str, str]]:
    data = event.get("data") or {}
    shown = [("Asset", str(event.get("subject", "")))]
    for name, label in _DETAILS.items():
        value = data.get(name)
        if value not in (None, "", []):
            shown.append((label, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return shown[:10]


def message(event: Event) -> dict[str, Any]:
    """The body of Slack's incoming webhook for one CloudEvent."""
    title = headline(event)
    fields = [
        MarkdownTextObject(text=f"*{label}*\n{escape(_cut(value, _FIELD))}")
        for label, value in _details(event)
    ]
    blocks: list[Block] = [
        HeaderBlock(text=PlainTextObject(text=_cut(title, _HEADER), emoji=False)),
        SectionBlock(fields=fields),
    ]
    url = (event.get("data") or {}).get("url")
    if isinstance(url, str) and url.startswith("https://") and not set(url) & set("<>| "):
        blocks.append(SectionBlock(text=MarkdownTextObject(text=f"<{_cut(url, 2000)}|Open at the source>")))
    origin = f"{event.get('source', '')} · {event.get('time', '')} · {event.get('id', '')}"
    blocks.append(
        ContextBlock(elements=[MarkdownTextObject(text=escape(_cut(origin, _FIELD)), verbatim=True)])
    )
    return {"text": escape(_cut(title, _FIELD)), "blocks": [block.to_dict() for block in blocks]}


class SlackSink(HttpSink[Config]):
    kind: ClassVar[str] = "slack"
    config_model = Config
    concurrency = 4  # Slack takes about one message a second and channel, and short bursts

    def render(self, notice: OutboundNotice, now: datetime) -> HttpRequest:  # noqa: ARG002
        body = orjson.dumps(message(notice.event()))
        return HttpRequest(self.config.url.get_secret_value(), {"Content-Type": "application/json"}, body)


SINK = SlackSink
