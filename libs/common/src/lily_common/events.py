"""Lily's event types: one Pydantic model per payload, and the envelope they travel in (CloudEvents 1.0 JSON).

Unknown fields of a payload are kept (`extra="allow"`). A type's wire name is `lily.` + its key in `PAYLOADS`.
Adding an event type is one model here and an entry in `PAYLOADS`; schema, docs and tests follow from it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from lily_common.names import AssetType, check_qualified_name


def _qualified_name(value: str) -> str:
    problem = check_qualified_name(value)
    if problem is not None:
        raise ValueError(problem)
    return value


def _no_controls(value: str) -> str:
    if any(ord(char) < 0x20 or ord(char) == 0x7F or 0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise ValueError("must not hold control characters (NUL included) or lone surrogates")
    return value


QualifiedName = Annotated[str, AfterValidator(_qualified_name)]
#: Free text that becomes part of a register key or a message key.
KeyText = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_no_controls)]
#: As KeyText, but not the last part of a register key, hence without its separator.
KeyPart = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^|]*$"), AfterValidator(_no_controls)
]
Aspect = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]


class Payload(BaseModel):
    """Base of all payloads. `qualified_name` names the asset whose state the event changes."""

    model_config = ConfigDict(extra="allow")

    @property
    def subject(self) -> str:
        return str(getattr(self, "qualified_name"))  # noqa: B009  (declared by every subclass but edges)


class AssetUpserted(Payload):
    """The whole of one aspect of an asset: clears older fields of that aspect."""

    qualified_name: QualifiedName
    asset_type: AssetType
    aspect: Aspect = "core"
    name: str | None = None
    parent: QualifiedName | None = None
    description: str | None = None
    owners: list[str] | None = None
    terms: list[str] | None = None
    data_type: str | None = None
    properties: dict[str, Any] = Field(default_factory=dict)


class AssetPatched(Payload):
    """Overlay: an absent or null field keeps the stored value; erasing is explicit (`unset`)."""

    qualified_name: QualifiedName
    asset_type: AssetType | None = None
    aspect: Aspect = "core"
    set: dict[KeyText, Any] = Field(default_factory=dict)
    unset: list[KeyText] = Field(default_factory=list)


class AssetDeleted(Payload):
    qualified_name: QualifiedName


class ClassificationAttached(Payload):
    """A tag given by one origin. Several origins keep a tag alive until the last is gone."""

    qualified_name: QualifiedName
    tag: KeyPart
    origin: KeyText = "direct"
    origin_kind: Literal["direct", "propagated", "rule"] = "direct"
    path: list[QualifiedName] | None = None
    depth: int | None = Field(None, ge=0)
    reason: str | None = None


class ClassificationDetached(Payload):
    qualified_name: QualifiedName
    tag: KeyPart
    origin: KeyText = "direct"
    origin_kind: Literal["direct", "propagated", "rule"] = "direct"
    reason: str | None = None


class _Edge(Payload):
    upstream: QualifiedName
    downstream: QualifiedName
    via: QualifiedName | None = Field(None, description="The job or query that makes the edge")
    kind: Literal["table", "column"] = "table"

    @property
    def subject(self) -> str:
        return self.downstream


class LineageEdgeAdded(_Edge):
    transformation: str | None = None


class LineageEdgeRemoved(_Edge):
    pass


class _Incident(Payload):
    qualified_name: QualifiedName
    incident_id: KeyText
    title: str | None = None
    severity: str | None = None
    status: str | None = None
    url: str | None = None


class IncidentOpened(_Incident):
    title: str


class IncidentUpdated(_Incident):
    pass


class IncidentResolved(_Incident):
    pass


class OwnerChanged(Payload):
    qualified_name: QualifiedName
    owners: list[str]


class DescriptionChanged(Payload):
    qualified_name: QualifiedName
    description: str | None


class TermChanged(Payload):
    qualified_name: QualifiedName
    terms: list[str]


class PropertyInherited(Payload):
    """A property's value that came by propagation; null: none comes any more. It never hides a value of the asset's own."""

    qualified_name: QualifiedName
    property: KeyPart
    value: Any = None
    origin_kind: Literal["propagated"] = "propagated"
    origin_asset: QualifiedName | None = None
    rule: str | None = None
    path: list[QualifiedName] | None = None
    depth: int | None = Field(None, ge=0)


class RowChanged(Payload):
    """One changed row of a source table (Debezium form); its state is the CDC table's, not a register."""

    qualified_name: QualifiedName = Field(description="The table")
    key: dict[str, Any]
    op: Literal["c", "u", "d", "r"]
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    position: str | None = Field(None, description="Source log position, e.g. the LSN")


PAYLOADS: Final[dict[str, type[Payload]]] = {
    "asset.upserted": AssetUpserted,
    "asset.patched": AssetPatched,
    "asset.deleted": AssetDeleted,
    "classification.attached": ClassificationAttached,
    "classification.detached": ClassificationDetached,
    "lineage.edge.added": LineageEdgeAdded,
    "lineage.edge.removed": LineageEdgeRemoved,
    "incident.opened": IncidentOpened,
    "incident.updated": IncidentUpdated,
    "incident.resolved": IncidentResolved,
    "owner.changed": OwnerChanged,
    "description.changed": DescriptionChanged,
    "term.changed": TermChanged,
    "property.inherited": PropertyInherited,
    "row.changed": RowChanged,
}
TYPE_PREFIX: Final = "lily."
EVENT_TYPES: Final[dict[str, type[Payload]]] = {TYPE_PREFIX + name: model for name, model in PAYLOADS.items()}

ASSET_UPSERTED: Final = "lily.asset.upserted"
ASSET_PATCHED: Final = "lily.asset.patched"
ASSET_DELETED: Final = "lily.asset.deleted"
TAG_ATTACHED: Final = "lily.classification.attached"
TAG_DETACHED: Final = "lily.classification.detached"
EDGE_ADDED: Final = "lily.lineage.edge.added"
EDGE_REMOVED: Final = "lily.lineage.edge.removed"
INCIDENT_OPENED: Final = "lily.incident.opened"
INCIDENT_UPDATED: Final = "lily.incident.updated"
INCIDENT_RESOLVED: Final = "lily.incident.resolved"
OWNER_CHANGED: Final = "lily.owner.changed"
DESCRIPTION_CHANGED: Final = "lily.description.changed"
TERM_CHANGED: Final = "lily.term.changed"
PROPERTY_INHERITED: Final = "lily.property.inherited"

#: What the fan-out job carries to `lily.notices`; a subscription to any other type is refused with 422.
FANOUT_TYPES: Final[tuple[str, ...]] = (
    TAG_ATTACHED,
    TAG_DETACHED,
    INCIDENT_OPENED,
    INCIDENT_UPDATED,
    INCIDENT_RESOLVED,
    OWNER_CHANGED,
    DESCRIPTION_CHANGED,
    TERM_CHANGED,
    PROPERTY_INHERITED,
    ASSET_DELETED,
)

PRIORITY_TOPIC: Final = "lily.changes.priority"
BULK_TOPIC: Final = "lily.changes.bulk"
RAW_TOPIC: Final = "lily.raw"
NOTICES_TOPIC: Final = "lily.notices"
COMMANDS_TOPIC: Final = "lily.commands"
COMMAND_RESULTS_TOPIC: Final = "lily.command-results"
TENANTS_TOPIC: Final = "lily.tenants"
REPLAYS_TOPIC: Final = "lily.replays"
REPLAY_PROGRESS_TOPIC: Final = "lily.replay-progress"
TABLES_TOPIC: Final = "lily.tables"
TABLE_REFRESHES_TOPIC: Final = "lily.table-refreshes"
PROPAGATION_RULES_TOPIC: Final = "lily.propagation-rules"
ENRICHMENT_RULES_TOPIC: Final = "lily.enrichment-rules"
ERASURES_TOPIC: Final = "lily.erasures"
CDC_SOURCES_TOPIC: Final = "lily.cdc-sources"
DLQ_CHANGES_TOPIC: Final = "lily.dlq.changes"
DLQ_CDC_TOPIC: Final = "lily.dlq.cdc"
DLQ_DELIVERIES_TOPIC: Final = "lily.dlq.deliveries"


def tenant_events_topic(tenant: str) -> str:
    """The public topic of one tenant, written by egress alone."""
    return f"lily.{tenant}.events"


def tenant_replay_topic(tenant: str, name: str) -> str:
    """A topic of the tenant's own that replays go to, written by egress alone."""
    return f"lily.{tenant}.replay.{name}"
