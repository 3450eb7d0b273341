"""What travels about assets."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, JsonValue

from lily_api.schemas import Output, example

_NAME = "postgres://shop-db:5432/shop/public/customers/email"
_VERSION = "01767348000000000.00000000000000000000.urn:catalogue 8c1f"


class TagOrigin(Output):
    """One reason why an asset bears a tag."""

    origin: str = Field(examples=["direct"])
    origin_kind: str = Field(examples=["direct"], description="direct, propagated or rule")
    origin_asset: JsonValue = Field(None, description="The asset that it came from, when propagated")
    rule: JsonValue = Field(None, description="The rule that it came by, when propagated")
    path: JsonValue = Field(None, description="Assets from the origin to here, when propagated")
    depth: JsonValue = None
    reason: JsonValue = None
    because: str | None = Field(None, description="Why the tag is there, in words, when asked to explain")


class AssetTag(Output):
    """An effective tag: it holds while at least one origin is left."""

    tag: str = Field(examples=["PII"])
    origins: list[TagOrigin]


class AssetTags(Output):
    """The tags of one asset."""

    qualified_name: str = Field(examples=[_NAME])
    tags: list[AssetTag]


class AssetView(Output):
    """An asset. The usual fields of its `core` aspect stand at the top, the others in `extra`."""

    model_config = example(
        {
            "qualified_name": _NAME,
            "asset_type": "column",
            "name": "email",
            "parent": "postgres://shop-db:5432/shop/public/customers",
            "description": "Where we write to",
            "owners": ["ann@shop.example"],
            "terms": [],
            "data_type": "varchar(200)",
            "properties": {"nullable": True},
            "extra": {},
            "aspects": {"quality": {"score": 0.98}},
            "tags": [{"tag": "PII", "origins": [{"origin": "direct", "origin_kind": "direct"}]}],
            "partial": False,
            "version": _VERSION,
            "updated_at": "2026-01-02T10:00:00Z",
            "answered_from": "mirror",
        }
    )

    qualified_name: str
    asset_type: JsonValue = Field(None, description="Null while no source has described the asset itself")
    name: JsonValue = Field(description="The last part of the qualified name when no source has named it")
    parent: JsonValue = None
    description: JsonValue = None
    owners: JsonValue = None
    terms: JsonValue = None
    data_type: JsonValue = None
    properties: JsonValue = None
    extra: dict[str, Any] = Field(description="Further fields of the core aspect, as sources sent them")
    aspects: dict[str, dict[str, Any]] = Field(description="Fields of the other aspects, by aspect")
    tags: list[AssetTag]
    partial: bool = Field(description="Known only through tags, incidents or patches so far")
    version: str = Field(description="State version; greater is newer")
    updated_at: datetime = Field(description="Effective time of the newest change")
    answered_from: Literal["mirror", "lake"]


class AssetSummary(Output):
    """An asset in a list."""

    model_config = example(
        {
            "qualified_name": _NAME,
            "asset_type": "column",
            "name": "email",
            "parent": "postgres://shop-db:5432/shop/public/customers",
            "tags": ["PII"],
            "version": _VERSION,
            "updated_at": "2026-01-02T10:00:00Z",
        }
    )

    qualified_name: str
    asset_type: str | None
    name: str
    parent: str | None
    tags: list[str]
    version: str
    updated_at: datetime


class IncidentView(Output):
    """An incident as its last event told it."""

    model_config = example(
        {
            "incident_id": "5f6e",
            "source": "urn:montecarlo",
            "qualified_name": "postgres://shop-db:5432/shop/public/customers",
            "open": True,
            "status": "opened",
            "title": "Freshness: no rows for 6 hours",
            "severity": "SEV-2",
            "url": "https://getmontecarlo.com/incidents/5f6e",
            "updated_at": "2026-01-02T10:00:00Z",
            "data": {"incident_id": "5f6e", "title": "Freshness: no rows for 6 hours"},
        }
    )

    incident_id: str
    source: str
    qualified_name: str
    open: bool
    status: JsonValue = Field(description="The vendor's status, else opened, updated or resolved")
    title: JsonValue = None
    severity: JsonValue = None
    url: JsonValue = None
    updated_at: datetime
    data: dict[str, Any] = Field(description="The event's whole payload")


class HistoryEntry(Output):
    """One accepted event of an asset."""

    model_config = example(
        {
            "id": "8c1f",
            "source": "urn:catalogue",
            "accepted_by": "key:key_91d0c2aa34b85f6e7d1c0b2f",
            "request_id": "5f3c0e2a9d1b4c7700000012",
            "type": "lily.classification.attached",
            "time": "2026-01-02T10:00:00Z",
            "accepted_time": "2026-01-02T10:00:00.120000Z",
            "lane": "priority",
            "version": _VERSION,
            "data": {"qualified_name": _NAME, "tag": "PII", "origin": "direct"},
        }
    )

    id: str
    source: str = Field(description="Who says so: the system that sent the event")
    accepted_by: str | None = Field(
        None,
        description="Whose credential brought it: `key:…`, `client:…`, or `connector:…`; null for events from before "
        "this was noted",
    )
    request_id: str | None = Field(None, description="The request that brought it, as in `X-Request-Id`")
    type: str
    time: datetime = Field(description="When it happened; orders states")
    accepted_time: datetime = Field(description="When Lily accepted it; orders this list")
    lane: str
    version: str
    data: dict[str, Any]
