"""The convergence rule, in one place: state is a set of registers, and the highest version wins each.

Every event writes registers of its subject asset. A register's value is the event's whole payload, its version
the event's `stateversion`; merging keeps, per key, the greater version. That merge is commutative, associative
and idempotent, so any order and repetition of arrival ends in the same state. Tombstones and aspect upserts
need no deletion: `assemble` hides what they out-date when the state is read.

`lily_spark.transforms.registers` is this module's twin in Spark SQL; a property test holds them equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lily_common import events as ev

SEPARATOR = "|"
DELETED = "deleted"
#: The aspect of what came by propagation: property -> its value, and by which rule from where.
INHERITED = "inherited"
_PATCHES = {ev.OWNER_CHANGED: "owners", ev.DESCRIPTION_CHANGED: "description", ev.TERM_CHANGED: "terms"}
#: Values of `origin_kind` that say that Lily itself made the event.
DERIVED_KINDS = ("propagated", "rule")
_ENVELOPE_FIELDS = frozenset({"qualified_name", "aspect"})


@dataclass(frozen=True, slots=True)
class Register:
    """One register's content: the event `type` that wrote it, its `version`, the event's `data`, its `source`."""

    type: str
    version: str
    data: Mapping[str, Any]

    @property
    def source(self) -> str:
        """The CloudEvents source of the event that wrote it (a part of the version)."""
        return self.version.split(".", 2)[2].split(" ", 1)[0]


Registers = dict[str, Register]


def register_keys(event_type: str, source: str, data: Mapping[str, Any]) -> list[str]:
    """Keys of the registers that an event of this type, source and payload writes on its subject asset."""
    if event_type == ev.ASSET_UPSERTED:
        return [_key("aspect", data.get("aspect") or "core")]
    if event_type == ev.ASSET_PATCHED:
        aspect = data.get("aspect") or "core"
        named = [name for name, value in (data.get("set") or {}).items() if value is not None]
        return [_key("field", aspect, name) for name in dict.fromkeys([*named, *(data.get("unset") or [])])]
    if event_type in _PATCHES:
        return [_key("field", "core", _PATCHES[event_type])]
    if event_type == ev.PROPERTY_INHERITED:
        return [_key("field", INHERITED, data["property"])]
    if event_type == ev.ASSET_DELETED:
        return [DELETED]
    if event_type in (ev.TAG_ATTACHED, ev.TAG_DETACHED):
        return [_key("tag", data["tag"], data.get("origin") or "direct")]
    if event_type in (ev.INCIDENT_OPENED, ev.INCIDENT_UPDATED, ev.INCIDENT_RESOLVED):
        return [_key("incident", source, data["incident_id"])]
    if event_type in (ev.EDGE_ADDED, ev.EDGE_REMOVED):
        return [_key("edge", data["upstream"], data.get("via") or "")]
    return []


def _key(*parts: str) -> str:
    return SEPARATOR.join(parts)


def event_registers(event: Mapping[str, Any]) -> Registers:
    """The registers that one accepted envelope (a decoded JSON object) writes."""
    register = Register(event["type"], event["stateversion"], event["data"])
    return dict.fromkeys(register_keys(event["type"], event["source"], event["data"]), register)


def merge(*states: Mapping[str, Register]) -> Registers:
    """Per key the register with the greatest version."""
    merged: Registers = {}
    for state in states:
        for key, register in state.items():
            held = merged.get(key)
            if held is None or register.version > held.version:
                merged[key] = register
    return merged


@dataclass
class AssetState:
    """What a reader sees of an asset. `fields` holds the visible fields by aspect; `tags` tag -> live origins."""

    exists: bool
    deleted: bool
    version: str
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    tags: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    incidents: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)

    @property
    def core(self) -> dict[str, Any]:
        return self.fields.get("core", {})

    @property
    def partial(self) -> bool:
        """Known only through tags, incidents or patches: no source has described the asset itself yet."""
        return self.exists and "asset_type" not in self.core


def assemble(registers: Mapping[str, Register]) -> AssetState:
    """The asset that these registers make: deletes hide what is older, upserts clear older fields of their aspect."""
    tombstone = registers[DELETED].version if DELETED in registers else ""
    live = {key: reg for key, reg in registers.items() if key != DELETED and reg.version > tombstone}
    # What came by propagation or by a rule says nothing of whether the asset itself is there.
    own = any(reg.data.get("origin_kind") not in DERIVED_KINDS for reg in live.values())
    state = AssetState(
        exists=own,
        deleted=bool(tombstone) and not own,
        version=max((reg.version for reg in registers.values()), default=""),
    )
    _assemble_fields(live, state)
    for key, reg in sorted(live.items()):
        kind, _, rest = key.partition(SEPARATOR)
        if kind == "tag" and reg.type == ev.TAG_ATTACHED:
            tag, _, origin = rest.partition(SEPARATOR)
            detail = {
                name: reg.data[name]
                for name in ("origin_kind", "origin_asset", "rule", "path", "depth", "reason")
                if reg.data.get(name) is not None
            }
            detail.setdefault("origin_kind", "direct")
            state.tags.setdefault(tag, []).append({"origin": origin, **detail})
        elif kind == "incident":
            state.incidents.append({"source": reg.source, "state": reg.type.rsplit(".", 1)[1], **reg.data})
        elif kind == "edge" and reg.type == ev.EDGE_ADDED:
            state.edges.append(dict(reg.data))
    return state


def _assemble_fields(live: Mapping[str, Register], state: AssetState) -> None:
    upserted: dict[str, str] = {}
    for key, reg in live.items():
        kind, _, aspect = key.partition(SEPARATOR)
        if kind == "aspect":
            upserted[aspect] = reg.version
            state.fields[aspect] = {
                name: value
                for name, value in reg.data.items()
                if name not in _ENVELOPE_FIELDS and value is not None
            }
    for key, reg in live.items():
        kind, _, rest = key.partition(SEPARATOR)
        if kind != "field":
            continue
        aspect, _, name = rest.partition(SEPARATOR)
        if reg.version <= upserted.get(aspect, ""):
            continue
        fields = state.fields.setdefault(aspect, {})
        value = patched_value(reg, name)
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value


def patched_value(register: Register, name: str) -> Any:
    """The value that a field register gives to field `name`; None erases (`unset` wins over `set`)."""
    if register.type in _PATCHES:
        return register.data.get(name)
    if register.type == ev.PROPERTY_INHERITED:
        told = ("value", "rule", "origin_asset", "path", "depth")
        known = {part: register.data[part] for part in told if register.data.get(part) is not None}
        return known if "value" in known else None
    if name in (register.data.get("unset") or []):
        return None
    return (register.data.get("set") or {}).get(name)


def fold(events: Iterable[Mapping[str, Any]]) -> Registers:
    """Registers after these envelopes, in whatever order they are given."""
    merged: Registers = {}
    for event in events:
        for key, register in event_registers(event).items():
            held = merged.get(key)
            if held is None or register.version > held.version:
                merged[key] = register
    return merged
