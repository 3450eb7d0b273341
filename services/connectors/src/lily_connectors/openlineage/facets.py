"""Reading OpenLineage facets. Facets are optional and written by many producers: what is not of the expected
shape reads as absent, and never fails the event that carries it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

#: A facet larger than this (JSON bytes) is not kept in an aspect; the raw archive has it.
MAX_FACET_BYTES = 16_384
_BOOKKEEPING = ("_producer", "_schemaURL", "_deleted")


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str | None:
    """A non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def facets_of(holder: Mapping[str, Any], *names: str) -> dict[str, dict[str, Any]]:
    """The facets under these keys (`facets`, `inputFacets`, …), those that say they are deleted left out."""
    found: dict[str, dict[str, Any]] = {}
    for key in names or ("facets",):
        for name, facet in as_dict(holder.get(key)).items():
            if isinstance(facet, dict) and facet.get("_deleted") is not True:
                found[name] = facet
    return found


def kept(facets: Mapping[str, dict[str, Any]], *, without: frozenset[str]) -> dict[str, Any]:
    """Facets worth keeping as they are, each without its bookkeeping; large ones say only how large they were."""
    result: dict[str, Any] = {}
    for name, facet in facets.items():
        if name in without or not 0 < len(name) <= 256 or not name.isprintable():
            continue
        content = {key: value for key, value in facet.items() if key not in _BOOKKEEPING}
        size = len(orjson.dumps(content))
        if content:
            result[name] = content if size <= MAX_FACET_BYTES else {"omitted_bytes": size}
    return result


def dataset_ids(values: Any) -> Iterator[tuple[str, str]]:
    """(namespace, name) of each well-formed item of a list."""
    for item in as_list(values):
        fields = as_dict(item)
        namespace, name = as_text(fields.get("namespace")), as_text(fields.get("name"))
        if namespace and name:
            yield namespace, name
