"""From Kafka messages to what they change: pure, and tolerant of any message that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from lily_common import events as ev
from lily_common.documents import (
    TOUCHED,
    StoredRegister,
    asset_id,
    digest,
    edge_id,
    incident_id,
    version_time,
    without_sensitive,
)
from lily_common.state import SEPARATOR, register_keys

_INCIDENTS = frozenset({ev.INCIDENT_OPENED, ev.INCIDENT_UPDATED, ev.INCIDENT_RESOLVED})
_ATTRIBUTES = ("tenantid", "source", "id", "type", "subject", "stateversion")
#: Bytes of a stored register beside its version and payload, roughly.
_REGISTER_BYTES = 150
_EDGES = frozenset({ev.EDGE_ADDED, ev.EDGE_REMOVED})


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message of a lane. `position` is "topic/partition/offset"."""

    key: str | None
    value: str
    position: str


@dataclass(frozen=True, slots=True)
class MirrorEvent:
    """One readable message of a lane. Its `position` tells a replay from a repeat."""

    tenant: str
    source: str
    id: str
    type: str
    subject: str
    version: str
    accepted: datetime
    data: dict[str, Any]
    message: Message

    @property
    def position(self) -> str:
        return self.message.position

    @property
    def size(self) -> int:
        return len(self.message.value)

    @property
    def identity(self) -> bytes:
        return digest(self.tenant, self.source, self.id)

    @property
    def body(self) -> bytes:
        """Digest of what the client said. Times and ids of the request are not part of it: a retry has others."""
        text = orjson.dumps(self.data, option=orjson.OPT_SORT_KEYS).decode()
        return digest(self.type, self.subject, text)


@dataclass(frozen=True, slots=True)
class Reject:
    """A message that the mirror cannot take. The lake has it all the same."""

    reason: str
    message: Message


def parse(message: Message) -> MirrorEvent:
    """The message as an event. Raises ValueError when it is not one."""
    try:
        event = orjson.loads(message.value)
        tenant, source, event_id, event_type, subject, version = (_text(event, name) for name in _ATTRIBUTES)
        accepted = datetime.fromisoformat(event["acceptedtime"]).astimezone(UTC)
        version_time(version)
        register_keys(event_type, source, event["data"])
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as broken:
        raise ValueError(f"not a Lily event: {type(broken).__name__}: {broken}") from broken
    return MirrorEvent(
        tenant, source, event_id, event_type, subject, version, accepted, event["data"], message
    )


def _text(event: dict[str, Any], name: str) -> str:
    value = event[name]
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} is not a text")
    return value


@dataclass(slots=True)
class AssetChange:
    """All that one chunk says about one asset: its newest registers, and how many bytes they came in."""

    tenant: str
    qualified_name: str
    registers: dict[str, StoredRegister] = field(default_factory=dict)
    size: int = 0
    events: list[MirrorEvent] = field(default_factory=list)

    @property
    def id(self) -> str:
        return asset_id(self.tenant, self.qualified_name)

    def put(self, key: str, register: StoredRegister) -> None:
        held = self.registers.get(key)
        if held is None or register.version > held.version:
            self.registers[key] = register


@dataclass(slots=True)
class Changes:
    """What a chunk changes, by document id; per document only the newest is kept."""

    assets: dict[str, AssetChange] = field(default_factory=dict)
    edges: dict[bytes, dict[str, Any]] = field(default_factory=dict)
    incidents: dict[str, dict[str, Any]] = field(default_factory=dict)

    def asset(self, tenant: str, qualified_name: str) -> AssetChange:
        name = asset_id(tenant, qualified_name)
        change = self.assets.get(name)
        if change is None:
            change = self.assets[name] = AssetChange(tenant, qualified_name)
        return change

    def put(
        self, tenant: str, subject: str, key: str, register: StoredRegister, sensitive: frozenset[str]
    ) -> None:
        """Take one register of an asset, in the mirror's form: trimmed, and without sensitive fields."""
        data = without_sensitive(register.data, sensitive) if sensitive else dict(register.data)
        asset = self.asset(tenant, subject)
        if register.type in _EDGES:
            self._put_edge(tenant, subject, register, data)
        elif register.type in _INCIDENTS:
            self._put_incident(tenant, subject, register, data)
        else:
            asset.put(*trimmed(key, replace(register, data=data), sensitive))
            return
        asset.put(TOUCHED, replace(register, data={}))

    def _put_edge(self, tenant: str, subject: str, register: StoredRegister, data: dict[str, Any]) -> None:
        upstream, via = data["upstream"], data.get("via") or ""
        document = {
            "_id": edge_id(tenant, upstream, subject, via),
            "tenant": tenant,
            "upstream": upstream,
            "downstream": subject,
            "via": via,
            "kind": data.get("kind") or "table",
            "removed": register.type == ev.EDGE_REMOVED,
        }
        _newest(self.edges, document | _content(register, data))

    def _put_incident(
        self, tenant: str, subject: str, register: StoredRegister, data: dict[str, Any]
    ) -> None:
        state = register.type.rsplit(".", 1)[1]
        document = {
            "_id": incident_id(tenant, subject, register.source, data["incident_id"]),
            "tenant": tenant,
            "qualified_name": subject,
            "source": register.source,
            "incident_id": data["incident_id"],
            "status": data.get("status") or state,
            "open": register.type != ev.INCIDENT_RESOLVED,
        }
        _newest(self.incidents, document | _content(register, data))


def _content(register: StoredRegister, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": register.version,
        "type": register.type,
        "data": orjson.dumps(data).decode(),
        "accepted_at": register.accepted,
    }


def _newest(documents: dict[Any, dict[str, Any]], document: dict[str, Any]) -> None:
    held = documents.get(document["_id"])
    if held is None or document["version"] > held["version"]:
        documents[document["_id"]] = document


def trimmed(key: str, register: StoredRegister, sensitive: frozenset[str]) -> tuple[str, StoredRegister]:
    """The register with the part of its payload that it needs; `TOUCHED` when nothing of it may be kept.

    A patch of n fields writes n registers: each keeps its own field only.
    """
    kind, _, rest = key.partition(SEPARATOR)
    if kind != "field":
        return key, register
    name = rest.partition(SEPARATOR)[2]
    if name in sensitive:
        return TOUCHED, replace(register, data={})
    data: dict[str, Any]
    if register.type == ev.PROPERTY_INHERITED:
        return key, register
    if register.type != ev.ASSET_PATCHED:
        data = {name: register.data.get(name)}
    elif name in (register.data.get("unset") or []):
        data = {"unset": [name]}
    else:
        data = {"set": {name: (register.data.get("set") or {}).get(name)}}
    return key, replace(register, data=data)


def gather(events: Iterable[MirrorEvent], sensitive: dict[str, frozenset[str]]) -> Changes:
    """What these events change, all their registers merged by version."""
    changes = Changes()
    none: frozenset[str] = frozenset()
    for event in events:
        keys = register_keys(event.type, event.source, event.data)
        register = StoredRegister(event.type, event.version, event.data, event.accepted)
        for key in keys:
            changes.put(event.tenant, event.subject, key, register, sensitive.get(event.tenant, none))
        if keys:
            asset = changes.asset(event.tenant, event.subject)
            asset.size += event.size + len(keys) * (len(event.version) + _REGISTER_BYTES)
            asset.events.append(event)
    return changes
