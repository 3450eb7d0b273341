"""A dataset of an OpenLineage event: its table asset, its columns, what its facets say.

Everything is a patch, because producers spread what they know over START, RUNNING and COMPLETE: a later event that
says less must not clear what an earlier one said. For the same reason a column that a later schema leaves out stays.
A parent is not stated: it is the qualified name one level up.
People and catalogues own `core`'s description and owners; what facets say of them is kept in aspect `openlineage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lily_common import events as ev
from lily_common.names import AssetType
from lily_connectors.openlineage.changes import Changes
from lily_connectors.openlineage.facets import as_dict, as_list, as_text, dataset_ids, facets_of, kept
from lily_connectors.openlineage.names import (
    DatasetName,
    column_qualified_name,
    is_dotted,
    to_qualified_name,
)

ASPECT = "openlineage"
#: Facets that become assets and edges, or are put in another form.
_MAPPED = frozenset({"schema", "columnLineage", "symlinks"})
_TOPIC_SCHEMES = ("kafka", "pulsar", "kinesis", "pubsub", "eventhub", "rabbitmq")
_TYPES = {
    "TABLE": AssetType.TABLE,
    "VIEW": AssetType.VIEW,
    "MATERIALIZED_VIEW": AssetType.VIEW,
    "TOPIC": AssetType.TOPIC,
    "STREAM": AssetType.TOPIC,
    "FILE": AssetType.FILE,
    "MODEL": AssetType.MODEL,
    "DASHBOARD": AssetType.DASHBOARD,
    "REPORT": AssetType.REPORT,
    "METRIC": AssetType.METRIC,
}
_MAX_NESTING = 32


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset with the facets of all its mentions in one event."""

    identity: DatasetName
    qualified_name: str
    facets: Mapping[str, dict[str, Any]]

    @classmethod
    def read(cls, namespace: str, name: str, holder: Mapping[str, Any]) -> Dataset:
        facets = facets_of(holder, "facets", "inputFacets", "outputFacets")
        return cls(DatasetName(namespace, name), to_qualified_name(namespace, name), facets)

    @property
    def asset_type(self) -> AssetType:
        stated = as_text(as_dict(self.facets.get("datasetType")).get("datasetType"))
        if stated and stated.upper() in _TYPES:
            return _TYPES[stated.upper()]
        topic = self.identity.namespace.lower().startswith(_TOPIC_SCHEMES)
        return AssetType.TOPIC if topic else AssetType.TABLE

    @property
    def dropped(self) -> bool:
        change = as_dict(self.facets.get("lifecycleStateChange")).get("lifecycleStateChange")
        return change == "DROP"

    @property
    def label(self) -> str:
        """The last part of its name, for people."""
        name = self.identity.name.rstrip("/") or self.identity.name
        return name.rsplit("." if is_dotted(self.identity.namespace) else "/", 1)[-1] or name


def describe(changes: Changes, dataset: Dataset) -> None:
    """The dataset's own asset and its columns."""
    kind = dataset.asset_type.value
    changes.patch(dataset.qualified_name, kind, {"asset_type": kind, "name": dataset.label})
    more = kept(dataset.facets, without=_MAPPED)
    if symlinks := [
        to_qualified_name(namespace, name)
        for namespace, name in dataset_ids(as_dict(dataset.facets.get("symlinks")).get("identifiers"))
    ]:
        more["symlinks"] = symlinks
    changes.patch(dataset.qualified_name, kind, more, ASPECT)
    _columns(changes, dataset)


def drop(changes: Changes, dataset: Dataset) -> None:
    changes.add(ev.ASSET_DELETED, {"qualified_name": dataset.qualified_name})


def _columns(changes: Changes, dataset: Dataset) -> None:
    fields = as_dict(dataset.facets.get("schema")).get("fields")
    for path, position, field in _walk(fields, ()):
        kind = (AssetType.COLUMN if len(path) == 1 else AssetType.FIELD).value
        qualified_name = column_qualified_name(dataset.qualified_name, *path)
        core = {
            "asset_type": kind,
            "name": path[-1],
            "data_type": as_text(field.get("type")),
            "ordinal": position,
        }
        changes.patch(qualified_name, kind, core)
        if description := as_text(field.get("description")):
            changes.patch(qualified_name, kind, {"description": description}, ASPECT)


def _walk(fields: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int, dict[str, Any]]]:
    """(path, position from 1, field) of every named field, parents before children."""
    if len(above) >= _MAX_NESTING:
        return
    for position, item in enumerate(as_list(fields), start=1):
        field = as_dict(item)
        name = as_text(field.get("name"))
        if name:
            path = (*above, name)
            yield path, position, field
            yield from _walk(field.get("fields"), path)
