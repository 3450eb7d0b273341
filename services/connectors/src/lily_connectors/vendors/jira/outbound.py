"""Notices as tickets: a search for the open one, then a comment on it or, when there is none, a new ticket.

What ties a ticket to its notices is a label made by hash, so that nothing has to be kept here. Jira Cloud, REST API v3:
https://developer.atlassian.com/cloud/jira/platform/rest/v3/ (`search/jql`, `issue`, `issue/{key}/comment`); texts are in
the Atlassian Document Format: https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

import orjson

from lily_common import events as ev
from lily_connectors.contract import HttpRequest, OutboundNotice, Outcome, Ports, Sink
from lily_connectors.sinks import wording
from lily_connectors.vendors.jira.config import Config

Node = dict[str, Any]

#: Jira's limit for a summary. Java counts it, in UTF-16 units.
_SUMMARY = 255
#: Jira takes 32,767 characters in a description or comment; all of these together stay below.
_VALUE = 1000
_LINK = 2000
_ORIGIN = 500
#: What ends something is told on its ticket, and never makes one.
_ENDS = frozenset({ev.TAG_DETACHED, ev.INCIDENT_RESOLVED})
_KEY = re.compile(r"[A-Z][A-Z0-9_]*-[0-9]+")
_STRONG: Node = {"type": "strong"}


@dataclass(frozen=True, slots=True)
class Ticket:
    """What may go out for one notice.

    `create` is None for what makes no ticket. `comment` is a body only: its URL holds the key that the search finds.
    """

    search: HttpRequest
    create: HttpRequest | None
    comment: bytes = field(repr=False)


def family(event: Node) -> str:
    """What the event is about, of all that can be told of its asset. An incident's id is its source's own."""
    match event["type"]:
        case ev.TAG_ATTACHED | ev.TAG_DETACHED:
            return f"tag|{event['data']['tag']}"
        case ev.INCIDENT_OPENED | ev.INCIDENT_UPDATED | ev.INCIDENT_RESOLVED:
            return f"incident|{event['source']}|{event['data']['incident_id']}"
        case other:
            return str(other).removeprefix(ev.TYPE_PREFIX).partition(".")[0]


def label(notice: OutboundNotice) -> str:
    """The label that the ticket of such notices bears."""
    about = f"{notice.tenant}|{notice.subject}|{family(notice.event())}"
    return "lily-" + hashlib.sha256(about.encode()).hexdigest()[:16]


def summary(event: Node) -> str:
    """The headline as Jira takes it: one line, not too long."""
    units = " ".join(wording.headline(event).split()).encode("utf-16-le")
    if len(units) <= 2 * _SUMMARY:
        return units.decode("utf-16-le")
    return units[: 2 * (_SUMMARY - 1)].decode("utf-16-le", "ignore") + "…"


def description(event: Node) -> Node:
    """A new ticket's text."""
    return _document(_particulars(event))


def comment(event: Node) -> Node:
    """The text for a ticket that is there already; its summary is older news."""
    return _document([_paragraph(_text(summary(event), _STRONG)), *_particulars(event)])


def open_ticket(answer: str) -> str | None:
    """The key of the ticket that a search found, None when it found none. Raises ValueError when it says neither."""
    match orjson.loads(answer):
        case {"issues": []}:
            return None
        case {"issues": [{"key": str(key)}, *_]} if _KEY.fullmatch(key):
            return key
    raise ValueError("neither a ticket's key nor an empty list")


def _particulars(event: Node) -> list[Node]:
    items = [
        {
            "type": "listItem",
            "content": [_paragraph(_text(name, _STRONG), _text(f": {wording.cut(value, _VALUE)}"))],
        }
        for name, value in wording.details(event)
    ]
    links = [
        _paragraph(_text(name, {"type": "link", "attrs": {"href": url}}))
        for url, name in (
            (wording.source_link(event), "Open at the source"),
            (wording.explain_link(event), "Why it has its tags"),
        )
        # A link that is cut leads nowhere, and Jira refuses the whole text for one it cannot read.
        if url is not None and len(url) <= _LINK and url.isprintable()
    ]
    origin = _paragraph(_text(wording.cut(wording.origin(event), _ORIGIN)))
    return [{"type": "bulletList", "content": items}, *links, origin]


def _document(content: list[Node]) -> Node:
    return {"type": "doc", "version": 1, "content": content}


def _paragraph(*content: Node) -> Node:
    return {"type": "paragraph", "content": list(content)}


def _text(text: str, *marks: Node) -> Node:
    """Plain text, which cannot mention or format. Jira refuses an empty one."""
    node: Node = {"type": "text", "text": text}
    return node | {"marks": list(marks)} if marks else node


class JiraSink(Sink[Config, Ticket]):
    kind: ClassVar[str] = "jira"
    config_model = Config
    concurrency = 4  # two calls each, and Jira limits calls by the second

    def render(self, notice: OutboundNotice, now: datetime) -> Ticket:  # noqa: ARG002
        event, mark, project = notice.event(), label(notice), self.config.project
        jql = f'project = "{project}" AND labels = "{mark}" AND statusCategory != Done ORDER BY created ASC'
        fields = {
            "project": {"key": project},
            "issuetype": {"name": self.config.issue_type},
            "summary": summary(event),
            "description": description(event),
            "labels": [mark, *self.config.labels],
        }
        return Ticket(
            search=self._post("search/jql", orjson.dumps({"jql": jql, "maxResults": 1, "fields": ["key"]})),
            create=None if notice.type in _ENDS else self._post("issue", orjson.dumps({"fields": fields})),
            comment=orjson.dumps({"body": comment(event)}),
        )

    async def send(self, rendered: Ticket, ports: Ports, within: float) -> Outcome:
        clock = asyncio.get_running_loop().time
        end = clock() + within
        found = _kept(await ports.http.post(rendered.search, within=within / 2))
        if not found.ok:
            return found
        try:
            key = open_ticket(found.snippet)
        except ValueError as unreadable:
            return replace(found, ok=False, error=f"the search's answer cannot be read: {unreadable}")
        if key is not None:
            request = self._post(f"issue/{key}/comment", rendered.comment)
        elif rendered.create is not None:
            request = rendered.create
        else:
            return replace(found, snippet="no open ticket to tell it on, and it makes none")
        return _kept(await ports.http.post(request, within=end - clock()))

    def _post(self, path: str, body: bytes) -> HttpRequest:
        account = f"{self.config.email}:{self.config.token.get_secret_value()}".encode()
        headers = {
            "Authorization": "Basic " + base64.b64encode(account).decode(),
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        return HttpRequest(f"{self.config.url.rstrip('/')}/rest/api/3/{path}", headers, body)


def _kept(outcome: Outcome) -> Outcome:
    """Jira answers 410 for an endpoint that it took away, which is no receiver's wish to hear no more."""
    return replace(outcome, gone=False)


SINK = JiraSink
