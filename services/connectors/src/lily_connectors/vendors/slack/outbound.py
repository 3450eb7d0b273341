"""Notices as Block Kit messages: what happened, to which asset, why.

Limits by Slack: header 150 characters, a field's text 2000, ten fields a section (https://docs.slack.dev/block-kit).
Slack answers 200 `ok`; 429 carries Retry-After; 410 (`channel_is_archived`) ends the subscription like any 410.
"""

from __future__ import annotations

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

from lily_connectors.contract import HttpRequest, HttpSink, OutboundNotice
from lily_connectors.sinks import wording
from lily_connectors.vendors.slack.config import Config

_HEADER = 150
_FIELD = 500
_FIELDS = 10


def escape(text: object) -> str:
    """Slack's three control characters (`&`, `<`, `>`), so that no payload can mention, link or format."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def message(event: dict[str, Any]) -> dict[str, Any]:
    """The body of Slack's incoming webhook for one CloudEvent."""
    title = wording.headline(event)
    fields = [
        MarkdownTextObject(text=f"*{label}*\n{escape(wording.cut(value, _FIELD))}")
        for label, value in wording.details(event)[:_FIELDS]
    ]
    blocks: list[Block] = [
        HeaderBlock(text=PlainTextObject(text=wording.cut(title, _HEADER), emoji=False)),
        SectionBlock(fields=fields),
    ]
    links = [
        f"<{wording.cut(url, 2000)}|{label}>"
        for url, label in (
            (wording.source_link(event), "Open at the source"),
            (wording.explain_link(event), "Why it has its tags"),
        )
        if url is not None
    ]
    if links:
        blocks.append(SectionBlock(text=MarkdownTextObject(text=" · ".join(links))))
    origin = escape(wording.cut(wording.origin(event), _FIELD))
    blocks.append(ContextBlock(elements=[MarkdownTextObject(text=origin, verbatim=True)]))
    return {"text": escape(wording.cut(title, _FIELD)), "blocks": [block.to_dict() for block in blocks]}


class SlackSink(HttpSink[Config]):
    kind: ClassVar[str] = "slack"
    config_model = Config
    concurrency = 4  # Slack takes about one message a second and channel, and short bursts

    def render(self, notice: OutboundNotice, now: datetime) -> HttpRequest:  # noqa: ARG002
        body = orjson.dumps(message(notice.event()))
        return HttpRequest(self.config.url.get_secret_value(), {"Content-Type": "application/json"}, body)


SINK = SlackSink
