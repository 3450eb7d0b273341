"""The convergence rule as DESIGN.md words it, written a second time for the judge.

It shares no code with the product on purpose. Versions are tuples here, compared as such; the product's are texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ATTACHED = "lily.classification.attached"
DETACHED = "lily.classification.detached"
DELETED = "deleted"

#: Types that set a field of the aspect `core` by being that field's change.
_ONE_FIELD = {
    "lily.owner.changed": "owners",
    "lily.description.changed": "description",
    "lily.term.changed": "terms",
}


class Version(NamedTuple):
    """Greater wins. `micros` since 1970 of the event's time; texts as UTF-8, the order that bytes have."""

    micros: int
    sequence: int
    source: bytes
    id: bytes

    @property
    def text(self) -> str:
        """The published form (`stateversion` of the envelope)."""
        return f"{self.micros:017d}.{self.sequence:020d}.{self.source.decode()} {self.id.decode()}"


class Held(NamedTuple):
    """A register's content: the event's type, its version's text, its payload."""

    type: str
    version: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Write:
    """One event, as the rule sees it."""

    version: Version
    type: str
    data: Mapping[str, Any]

    @property
    def held(self) -> Held:
        return Held(self.type, self.version.text, self.data)


def write_of(event: Mapping[str, Any]) -> Write:
    """The write that a client's CloudEvent makes. Raises ValueError for one without a time: only the server knows it."""
    if "time" not in event:
        raise ValueError("the judge needs events that state their time")
    moment = datetime.fromisoformat(event["time"])
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    version = Version(micros, int(event.get("sequence", 0)), event["source"].encode(), event["id"].encode())
    return Write(version, event["type"], event["data"])


def asset_of(event: Mapping[str, Any]) -> str:
    data = event["data"]
    return str(data["downstream"] if "downstream" in data else data["qualified_name"])


def registers_of(event: Mapping[str, Any]) -> list[str]:
    """Names of the registers that the event writes on its asset, as silver spells them."""
    kind, data = event["type"], event["data"]
    aspect = data.get("aspect", "core")
    match kind:
        case "lily.asset.upserted":
            return [f"aspect|{aspect}"]
        case "lily.asset.patched":
            fields = {name for name, value in data.get("set", {}).items() if value is not None}
            return [f"field|{aspect}|{name}" for name in fields | set(data.get("unset", []))]
        case "lily.asset.deleted":
            return [DELETED]
        case "lily.classification.attached" | "lily.classification.detached":
            return [f"tag|{data['tag']}|{data.get('origin', 'direct')}"]
        case "lily.incident.opened" | "lily.incident.updated" | "lily.incident.resolved":
            return [f"incident|{event['source']}|{data['incident_id']}"]
        case "lily.lineage.edge.added" | "lily.lineage.edge.removed":
            return [f"edge|{data['upstream']}|{data.get('via') or ''}"]
        case _:
            return [f"field|core|{_ONE_FIELD[kind]}"]


def fold(events: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Write]]:
    """asset -> register -> the write that wins it. The order of `events` does not matter."""
    state: dict[str, dict[str, Write]] = {}
    for event in events:
        write = write_of(event)
        held = state.setdefault(asset_of(event), {})
        for name in registers_of(event):
            if name not in held or write.version > held[name].version:
                held[name] = write
    return state


def visible(registers: Mapping[str, Write]) -> dict[str, Write]:
    """The registers that a reader sees: none older than the tombstone, no field older than its aspect's upsert."""
    grave = registers.get(DELETED)
    seen = {}
    for name, write in registers.items():
        if name == DELETED or (grave and write.version < grave.version):
            continue
        kind, _, rest = name.partition("|")
        upsert = registers.get(f"aspect|{rest.partition('|')[0]}") if kind == "field" else None
        if upsert is None or write.version > upsert.version:
            seen[name] = write
    return seen


def own_value(name: str, write: Write | Held) -> Any:
    """What a field register says of its field: its value, None when it erases it. For other registers the payload."""
    kind, _, rest = name.partition("|")
    if kind != "field":
        return write.data
    field = rest.partition("|")[2]
    if write.type in _ONE_FIELD:
        return write.data.get(field)
    if field in write.data.get("unset", []):
        return None
    return write.data.get("set", {}).get(field)


def effective_tags(registers: Mapping[str, Write]) -> set[str]:
    """Tags with at least one origin that is attached and not buried by a delete."""
    return {
        name.split("|")[1]
        for name, write in visible(registers).items()
        if name.startswith("tag|") and write.type == ATTACHED
    }
