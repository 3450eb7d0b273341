"""A notice in words, for chats and tickets: what happened to which asset, who did it, why, and where to look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lily_common import events as ev

Event = dict[str, Any]


def name(subject: str) -> str:
    """The last two steps of a qualified name, e.g. `customers.email`."""
    return ".".join(subject.rpartition("://")[2].split("/")[-2:])


def _tag(event: Event) -> str:
    done = "tagged" if event["type"] == ev.TAG_ATTACHED else "no longer tagged"
    return f"{name(event['subject'])} is {done} {event['data'].get('tag')}"


def _incident(event: Event) -> str:
    what = event["data"].get("title") or event["data"].get("incident_id")
    return f"Incident {event['type'].rsplit('.', 1)[1]} on {name(event['subject'])}: {what}"


def _field(event: Event) -> str:
    return f"{event['type'].split('.')[1].capitalize()} changed on {name(event['subject'])}"


def _inherited(event: Event) -> str:
    return f"{str(event['data']['property']).capitalize()} by lineage changed on {name(event['subject'])}"


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
    ev.ASSET_DELETED: lambda event: f"{name(event['subject'])} was deleted",
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
#: The same of the event's attributes: who sent it, and the policies that are about its tag.
_ATTRIBUTES = {"acceptedby": "By", "tagpolicies": "Policies"}


def headline(event: Event) -> str:
    """One plain sentence."""
    make = _HEADLINES.get(event["type"])
    return make(event) if make is not None else f"{event['type']} on {event.get('subject', '')}"


def details(event: Event) -> list[tuple[str, str]]:
    """(label, text) of what is known, the asset first."""
    shown = [("Asset", str(event.get("subject", "")))]
    for fields, labels in ((event.get("data") or {}, _DETAILS), (event, _ATTRIBUTES)):
        for field, label in labels.items():
            value = fields.get(field)
            if value not in (None, "", []):
                shown.append((label, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return shown


def source_link(event: Event) -> str | None:
    """The sender's own page about it, when that is a plain https URL."""
    url = (event.get("data") or {}).get("url")
    return url if isinstance(url, str) and _plain(url) and url.startswith("https://") else None


def explain_link(event: Event) -> str | None:
    """Where Lily tells why the asset has its tags."""
    url = event.get("explainurl")
    return url if isinstance(url, str) and _plain(url) and url.startswith(("https://", "http://")) else None


def origin(event: Event) -> str:
    """Which event it was."""
    return f"{event.get('source', '')} · {event.get('time', '')} · {event.get('id', '')}"


def cut(text: str, length: int) -> str:
    """At most `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _plain(url: str) -> bool:
    return not set(url) & set("<>| ")
