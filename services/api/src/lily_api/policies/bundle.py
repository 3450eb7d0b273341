"""A tenant's policies, mappings and tags as one file, in the form of an Open Policy Agent bundle.

Form: https://www.openpolicyagent.org/docs/management-bundles#bundle-file-format (a gzipped tar of `data.json` and
`.manifest`). The same content is the same bytes, so that its digest serves as ETag.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass
from typing import Any

import orjson

from lily_api.declarations import service
from lily_api.declarations.kinds import MAPPING, POLICY, Kind
from lily_api.lake.tagged import TagReader
from lily_api.services import Services

ROOT = "lily"


@dataclass(frozen=True, slots=True)
class Bundle:
    """`revision` names the content; `content` is the file."""

    revision: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Held:
    lake: int | None
    declared: tuple[tuple[str, int], ...]
    bundle: Bundle


class Bundles:
    """The last bundle of each tenant, kept for as long as nothing has changed that it is made of."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, services: Services, tenant: str) -> Bundle:
        """Raises UnavailableError when the lake does not answer."""
        async with self._locks.setdefault(tenant, asyncio.Lock()):
            reader = services.get(TagReader)
            lake = await asyncio.to_thread(reader.version)
            policies = await _declared(services, tenant, POLICY)
            mappings = await _declared(services, tenant, MAPPING)
            declared = tuple((one["name"], one["version"]) for one in (*policies, *mappings))
            held = self._held.get(tenant)
            if held is not None and (held.lake, held.declared) == (lake, declared):
                return held.bundle
            tags = await asyncio.to_thread(reader.tags, tenant)
            data = {
                "policies": [one["body"] for one in policies],
                "mappings": [one["body"] for one in mappings],
                "tags": tags,
            }
            bundle = await asyncio.to_thread(packed, data)
            self._held[tenant] = _Held(lake, declared, bundle)
            return bundle


def packed(data: dict[str, Any]) -> Bundle:
    """The bundle that holds `data` below ROOT. Pure."""
    content = orjson.dumps({ROOT: data}, option=orjson.OPT_SORT_KEYS)
    revision = hashlib.sha256(content).hexdigest()
    manifest = orjson.dumps({"revision": revision, "roots": [ROOT]})
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, part in (("data.json", content), (".manifest", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(part), 0o644
            archive.addfile(entry, io.BytesIO(part))
    return Bundle(revision, buffer.getvalue())


async def _declared(services: Services, tenant: str, kind: Kind) -> list[dict[str, Any]]:
    rows = await service.list_page(services, tenant, kind, "", kind.most)
    return [{"name": f"{kind.name}:{row.name}", "version": row.version, "body": row.body} for row in rows]
