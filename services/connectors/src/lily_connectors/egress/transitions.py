"""Which notices are news: the decision, without any I/O.

State per asset is a set of registers (`lily_common.state`); per register the highest version wins and an older one is
ignored. A notice is a *transition* when what can be seen of the asset changes:

- a tag is effective while any of its origins is attached: the first origin attaches it, the last one detaches it, what
  lies between (a re-assertion, one of two origins gone) is no news;
- an incident is news when whether it is resolved, or its content, differs from what was known;
- owners, description and terms are news when the value differs from the last one told;
- a delete is always news, for egress cannot see whether the asset was made anew in between. It hides every register
  with a lower version, and hence first takes back the tags that it ends: one derived `classification.detached` each
  (source `/lily/egress`, an id made from the delete's identity and the tag, `causesource` and `causeid` naming it).

Whatever the order of arrival, the registers end the same, and the last transition told of a tag is its final state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

import orjson

from lily_common import events as ev
from lily_common.state import DELETED, SEPARATOR
from lily_connectors.egress.digests import digest, identity_key
from lily_connectors.egress.notices import Notice

DERIVED_SOURCE = "/lily/egress"
_NO_MEMBER = ""
#: Fields of the payload that carry the value of owner, description and term changes.
_VALUE_FIELDS = {
    ev.OWNER_CHANGED: "owners",
    ev.DESCRIPTION_CHANGED: "description",
    ev.TERM_CHANGED: "terms",
    ev.PROPERTY_INHERITED: "value",
}
_NAMES = {
    ev.TAG_ATTACHED: "attached",
    ev.TAG_DETACHED: "detached",
    ev.INCIDENT_OPENED: "opened",
    ev.INCIDENT_UPDATED: "updated",
    ev.INCIDENT_RESOLVED: "resolved",
    ev.OWNER_CHANGED: "changed",
    ev.DESCRIPTION_CHANGED: "changed",
    ev.TERM_CHANGED: "changed",
    ev.PROPERTY_INHERITED: "changed",
    ev.ASSET_DELETED: "deleted",
}

Kind = Literal["tag", "incident", "field", "deleted"]


class Verdict(StrEnum):
    """What a notice turned out to be; also the label of the metric."""

    TRANSITION = "transition"
    REASSERTED = "reasserted"
    STALE = "stale"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class Held:
    """A register as egress keeps it: not its content, only what decides whether the next notice is news.

    `live` says attached (tags) or open (incidents); `content` is a digest of what would be told.
    """

    kind: Kind
    tag: str | None
    version: str
    live: bool
    content: UUID | None


@dataclass(frozen=True, slots=True)
class RegisterKey:
    """Where a register is. `family` is what one asks about (a tag, an incident), `member` one of its origins."""

    family: str
    member: str = _NO_MEMBER

    @classmethod
    def of(cls, register: str) -> RegisterKey:
        kind, _, rest = register.partition(SEPARATOR)
        if kind != "tag":
            return cls(register)
        tag, _, origin = rest.partition(SEPARATOR)
        return cls(tag_family(tag), origin)


def tag_family(tag: str) -> str:
    return f"tag{SEPARATOR}{tag}"


@dataclass(frozen=True, slots=True)
class Transition:
    """One thing to tell: `event` for matching, `body` as it is delivered (with the extension `transition`)."""

    name: str
    cause: Notice
    identity: UUID
    source: str
    event_id: str
    event: dict[str, Any]
    body: bytes

    @property
    def type(self) -> str:
        event_type: str = self.event["type"]
        return event_type


@dataclass
class Asset:
    """What egress knows of one asset. `families` may hold only those that a batch touches; see `families_of`."""

    families: dict[str, dict[str, Held]] = field(default_factory=dict)
    #: Registers written since the asset was loaded.
    written: dict[RegisterKey, Held] = field(default_factory=dict)

    def get(self, key: RegisterKey) -> Held | None:
        return self.families.get(key.family, {}).get(key.member)

    def put(self, key: RegisterKey, held: Held) -> None:
        self.families.setdefault(key.family, {})[key.member] = held

    def write(self, key: RegisterKey, held: Held) -> None:
        self.put(key, held)
        self.written[key] = held

    @property
    def tombstone(self) -> str:
        held = self.get(RegisterKey(DELETED))
        return held.version if held is not None else ""

    def effective(self, tag: str) -> bool:
        """Whether any origin of the tag is attached and not hidden by a delete."""
        tombstone = self.tombstone
        members = self.families.get(tag_family(tag), {}).values()
        return any(held.live and held.version > tombstone for held in members)

    def effective_tags(self) -> list[str]:
        tags = {held.tag for members in self.families.values() for held in members.values() if held.tag}
        return sorted(tag for tag in tags if self.effective(tag))


def families_of(notice: Notice) -> set[str]:
    """The families that have to be loaded before `apply`; a delete needs those of every tag besides."""
    return {RegisterKey.of(notice.register).family, DELETED}


def needs_all_tags(notice: Notice) -> bool:
    return notice.type == ev.ASSET_DELETED


def apply(asset: Asset, notice: Notice) -> tuple[Verdict, list[Transition]]:
    """Write the notice's register into `asset` and say what there is to tell."""
    key = RegisterKey.of(notice.register)
    before = asset.get(key)
    if before is not None and notice.version <= before.version:
        return (Verdict.REPEAT if notice.version == before.version else Verdict.STALE), []
    if notice.type == ev.ASSET_DELETED:
        told = _delete(asset, key, notice)
    elif notice.type in (ev.TAG_ATTACHED, ev.TAG_DETACHED):
        told = _tag(asset, key, notice)
    else:
        told = _content(asset, key, notice, before)
    return (Verdict.TRANSITION if told else Verdict.REASSERTED), told


def apply_all(asset: Asset, notices: Iterable[Notice]) -> list[Transition]:
    """All transitions of these notices of one asset, in this order."""
    return [transition for notice in notices for transition in apply(asset, notice)[1]]


def _tag(asset: Asset, key: RegisterKey, notice: Notice) -> list[Transition]:
    tag: str = notice.data["tag"]
    was = asset.effective(tag)
    asset.write(key, Held("tag", tag, notice.version, notice.type == ev.TAG_ATTACHED, None))
    return [_told(notice)] if asset.effective(tag) != was else []


def _content(asset: Asset, key: RegisterKey, notice: Notice, before: Held | None) -> list[Transition]:
    value_field = _VALUE_FIELDS.get(notice.type)
    resolved = notice.type == ev.INCIDENT_RESOLVED
    value = notice.data.get(value_field) if value_field is not None else notice.data
    content = digest(str(resolved), orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())
    kind: Kind = "field" if value_field is not None else "incident"
    asset.write(key, Held(kind, None, notice.version, not resolved, content))
    tombstone = asset.tombstone
    if notice.version <= tombstone:
        return []
    known = before is not None and before.version > tombstone and before.content == content
    return [] if known else [_told(notice)]


def _delete(asset: Asset, key: RegisterKey, notice: Notice) -> list[Transition]:
    was = asset.effective_tags()
    asset.write(key, Held("deleted", None, notice.version, True, None))
    ended = [tag for tag in was if not asset.effective(tag)]
    return [*(_ended(notice, tag) for tag in ended), _told(notice)]


def _told(notice: Notice) -> Transition:
    name = _NAMES[notice.type]
    return Transition(
        name=name,
        cause=notice,
        identity=notice.identity,
        source=notice.source,
        event_id=notice.id,
        event=notice.event | {"transition": name},
        body=with_attributes(notice.body, {"transition": name}),
    )


def with_attributes(body: bytes, attributes: Mapping[str, str]) -> bytes:
    """The event's own bytes with attributes more: numbers and unknown fields stay as their sender wrote them."""
    return body[:-1] + b"," + orjson.dumps(attributes)[1:]


def _ended(notice: Notice, tag: str) -> Transition:
    """A tag that the asset's deletion took back."""
    event_id = digest("ended", notice.source, notice.id, tag).hex
    kept = {name: value for name, value in notice.event.items() if name not in ("data", "sequence")}
    event = kept | {
        "id": event_id,
        "source": DERIVED_SOURCE,
        "type": ev.TAG_DETACHED,
        "causesource": notice.source,
        "causeid": notice.id,
        "transition": "detached",
        "data": {
            "qualified_name": notice.subject,
            "tag": tag,
            "origin": "deleted",
            "reason": "asset deleted",
        },
    }
    return Transition(
        name="detached",
        cause=notice,
        identity=identity_key(notice.tenant, DERIVED_SOURCE, event_id),
        source=DERIVED_SOURCE,
        event_id=event_id,
        event=event,
        body=orjson.dumps(event),
    )
