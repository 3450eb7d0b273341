"""Lineage edges of an OpenLineage event: each output comes from each input, and columns from columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lily_common import events as ev
from lily_connectors.openlineage.changes import Changes
from lily_connectors.openlineage.datasets import Dataset
from lily_connectors.openlineage.facets import as_dict, as_list, as_text
from lily_connectors.openlineage.names import column_qualified_name, to_qualified_name


def connect(changes: Changes, inputs: Sequence[Dataset], outputs: Sequence[Dataset], via: str) -> None:
    """Table edges (inputs times outputs) and the edges of each output's columnLineage facet, made by job `via`."""
    for output in outputs:
        for source in inputs:
            if source.qualified_name != output.qualified_name:
                _add(changes, source.qualified_name, output.qualified_name, {"via": via, "kind": "table"})
        for upstream, downstream, detail in _column_edges(output):
            _add(changes, upstream, downstream, {"via": via, "kind": "column", **detail})


def _add(changes: Changes, upstream: str, downstream: str, detail: dict[str, Any]) -> None:
    changes.add(ev.EDGE_ADDED, {"upstream": upstream, "downstream": downstream, **detail})


def _column_edges(output: Dataset) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(upstream column, downstream, detail) once per pair.

    What the facet lists for the dataset as a whole (join and filter columns) goes into the table itself.
    """
    facet = as_dict(output.facets.get("columnLineage"))
    seen: set[tuple[str, str]] = set()
    targets: list[tuple[str, Any]] = [
        (column_qualified_name(output.qualified_name, name), as_dict(field).get("inputFields"))
        for name, field in as_dict(facet.get("fields")).items()
        if name
    ]
    targets.append((output.qualified_name, facet.get("dataset")))
    for downstream, sources in targets:
        for upstream, transformations in _sources(sources):
            if upstream != downstream and (upstream, downstream) not in seen:
                seen.add((upstream, downstream))
                yield upstream, downstream, _detail(transformations)


def _sources(fields: Any) -> Iterator[tuple[str, list[Any]]]:
    for item in as_list(fields):
        field = as_dict(item)
        namespace, name = as_text(field.get("namespace")), as_text(field.get("name"))
        column = as_text(field.get("field"))
        if namespace and name and column:
            yield (
                column_qualified_name(to_qualified_name(namespace, name), column),
                as_list(field.get("transformations")),
            )


def _detail(transformations: Iterable[Any]) -> dict[str, Any]:
    """`transformation`: e.g. `DIRECT/IDENTITY`, several joined by a comma; `masking` when any of them masks."""
    described = [as_dict(item) for item in transformations]
    names = dict.fromkeys(
        "/".join(part for part in (as_text(item.get("type")), as_text(item.get("subtype"))) if part)
        for item in described
    )
    detail: dict[str, Any] = {}
    if text := ",".join(name for name in names if name):
        detail["transformation"] = text
    if any(item.get("masking") is True for item in described):
        detail["masking"] = True
    return detail
