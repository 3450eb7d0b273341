"""From registers and documents to answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import orjson

from lily_api.assets.schemas import AssetTag, AssetTags, AssetView, HistoryEntry, IncidentView, TagOrigin
from lily_api.lake.reader import PastEvent
from lily_common.documents import version_time, without_sensitive
from lily_common.envelope import parse_time
from lily_common.errors import NotFoundError
from lily_common.names import parent_of
from lily_common.state import AssetState, Register, assemble

_TOP = ("asset_type", "description", "owners", "terms", "data_type", "properties")


def asset(
    qualified_name: str, registers: Mapping[str, Register], answered_from: Literal["mirror", "lake"]
) -> AssetView:
    """Raises NotFoundError when these registers make no asset, or a deleted one."""
    state = assemble(registers)
    if state.deleted:
        raise deleted()
    if not state.exists:
        raise unknown()
    core = dict(state.core)
    return AssetView(
        qualified_name=qualified_name,
        name=core.pop("name", None) or qualified_name.rstrip("/").rsplit("/", 1)[-1],
        parent=core.pop("parent", None) or parent_of(qualified_name),
        **{name: core.pop(name, None) for name in _TOP},
        extra=core,
        aspects={name: fields for name, fields in state.fields.items() if name != "core"},
        tags=_tags(state),
        partial=state.partial,
        version=state.version,
        updated_at=version_time(state.version),
        answered_from=answered_from,
    )


def _tags(state: AssetState) -> list[AssetTag]:
    return [
        AssetTag(tag=tag, origins=[TagOrigin(**origin) for origin in origins])
        for tag, origins in sorted(state.tags.items())
    ]


def explained(found: AssetView) -> AssetTags:
    """The tags, with a word on why each origin gives it."""
    tags = [
        AssetTag(
            tag=held.tag,
            origins=[
                origin.model_copy(update={"because": _because(held.tag, origin)}) for origin in held.origins
            ],
        )
        for held in found.tags
    ]
    return AssetTags(qualified_name=found.qualified_name, tags=tags)


def _because(tag: str, origin: TagOrigin) -> str:
    if origin.origin_kind == "propagated":
        path = origin.path if isinstance(origin.path, list) else []
        way = " → ".join(map(str, path)) or str(origin.origin_asset)
        text = (
            f"{origin.origin_asset or path[:1]} is tagged {tag}, and the rule {origin.rule} carries it: {way}"
        )
    elif origin.origin_kind == "rule":
        text = f"the rule {origin.rule or origin.origin} found that it is {tag}"
    else:
        text = f"{tag} was attached to the asset itself, as of {origin.origin}"
    return f"{text} ({origin.reason})" if origin.reason else text


def incident(document: Mapping[str, Any]) -> IncidentView:
    data = orjson.loads(document["data"])
    return IncidentView(
        incident_id=document["incident_id"],
        source=document["source"],
        qualified_name=document["qualified_name"],
        open=document["open"],
        status=document["status"],
        title=data.get("title"),
        severity=data.get("severity"),
        url=data.get("url"),
        updated_at=version_time(document["version"]),
        data=data,
    )


def history(past: PastEvent, sensitive: frozenset[str]) -> HistoryEntry:
    event = past.event
    return HistoryEntry(
        id=event["id"],
        source=event["source"],
        accepted_by=event.get("acceptedby"),
        request_id=event.get("requestid"),
        type=event["type"],
        time=parse_time(event["time"]),
        accepted_time=past.place.accepted,
        lane=event["lane"],
        version=past.place.version,
        data=without_sensitive(event["data"], sensitive),
    )


def without_sensitive_fields(
    registers: Mapping[str, Register], sensitive: frozenset[str]
) -> dict[str, Register]:
    """Registers of the lake as the mirror would have them."""
    return {
        key: Register(register.type, register.version, without_sensitive(register.data, sensitive))
        for key, register in registers.items()
        if not (key.startswith("field|") and key.split("|", 2)[2] in sensitive)
    }


def unknown() -> NotFoundError:
    return NotFoundError("there is no such asset", code="unknown-asset")


def deleted() -> NotFoundError:
    return NotFoundError("the asset has been deleted; its history is kept", code="asset-deleted")
