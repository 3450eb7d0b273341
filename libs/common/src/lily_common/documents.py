"""Shape of the mirror's Mongo documents: `lily_spark.mirror` writes them, the API reads them. Pure, no driver.

An asset's registers are kept as JSON text (`d`), not as nested documents: any JSON a source sends is kept
exactly (64-bit-plus integers, keys with `.`, `$` or NUL, any depth), and nothing ever queries inside them. What is
queried is derived and stands beside them: `asset_type`, `name`, `parent`, `tags`, `search`.

Incidents and edges are documents of their own collections. So that the asset itself still exists and bears the
right version when nothing else is known of it, such an event leaves the pseudo-register `TOUCHED` on its asset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import orjson

from lily_common.names import message_key
from lily_common.state import Register

ASSETS = "assets"
INCIDENTS = "incidents"
EDGES = "edges"
IDENTITIES = "identities"

#: Register of an asset for events whose content is kept elsewhere (incident, edge) or nowhere (sensitive only).
TOUCHED = "touched"

#: Fields that make the structure of an event; a policy cannot call them sensitive.
STRUCTURAL = frozenset(
    {
        "qualified_name",
        "asset_type",
        "aspect",
        "set",
        "unset",
        "properties",
        "tag",
        "origin",
        "origin_kind",
        "property",
        "rule",
        "origin_asset",
        "path",
        "depth",
        "incident_id",
        "upstream",
        "downstream",
        "via",
        "kind",
    }
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNSAFE = re.compile(r"[%.$\x00]")
_ESCAPED = re.compile(r"%(25|2E|24|00)")
_WORD = re.compile(r"[^\W_]+")
_MAX_WORDS = 48
_MAX_WORD = 48


@dataclass(frozen=True, slots=True)
class StoredRegister(Register):
    """A register with when it was accepted, which decides how long it stays in the mirror."""

    accepted: datetime


def escape_key(key: str) -> str:
    """A register key as a Mongo field name: `.`, `$`, `%` and NUL percent-encoded."""
    return _UNSAFE.sub(lambda found: f"%{ord(found.group()):02X}", key)


def unescape_key(name: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), name)


def asset_id(tenant: str, qualified_name: str) -> str:
    return message_key(tenant, qualified_name)


def incident_id(tenant: str, qualified_name: str, source: str, incident: str) -> str:
    return f"{message_key(tenant, qualified_name)}|{source}|{incident}"


def edge_id(tenant: str, upstream: str, downstream: str, via: str) -> bytes:
    """16 bytes: two qualified names and a job can be 6 KB, and each edge is indexed three times."""
    return digest(tenant, upstream, downstream, via)


def digest(*parts: str) -> bytes:
    """16 bytes that stand for these texts, in this order (BLAKE2b; NUL parts them, which none of them holds)."""
    return blake2b("\x00".join(parts).encode(), digest_size=16).digest()


def version_time(version: str) -> datetime:
    """The effective time that a state version begins with."""
    return _EPOCH + timedelta(microseconds=int(version.split(".", 1)[0]))


def encode_register(register: StoredRegister) -> dict[str, Any]:
    text = orjson.dumps(register.data).decode()
    return {"t": register.type, "v": register.version, "d": text, "a": register.accepted}


def decode_registers(document: Mapping[str, Any]) -> dict[str, StoredRegister]:
    """The registers of a document of `assets`; empty for a stub. Times are aware when the client's codec is."""
    return {
        unescape_key(name): StoredRegister(held["t"], held["v"], orjson.loads(held["d"]), held["a"])
        for name, held in (document.get("registers") or {}).items()
    }


def without_sensitive(data: Mapping[str, Any], sensitive: frozenset[str]) -> dict[str, Any]:
    """The payload without the fields that a tenant calls sensitive: at its top, in `properties`, in a patch."""
    kept = {name: value for name, value in data.items() if name in STRUCTURAL or name not in sensitive}
    for name in ("properties", "set"):
        if isinstance(nested := kept.get(name), dict):
            kept[name] = {key: value for key, value in nested.items() if key not in sensitive}
    if isinstance(kept.get("set"), dict) and isinstance(nested := kept["set"].get("properties"), dict):
        kept["set"]["properties"] = {key: value for key, value in nested.items() if key not in sensitive}
    if isinstance(kept.get("unset"), list):
        kept["unset"] = [name for name in kept["unset"] if name not in sensitive]
    return kept


def search_words(*texts: str) -> list[str]:
    """Case-folded words of these texts, also split at camelCase, sorted: what `q=` matches by prefix."""
    words: dict[str, None] = {}
    for text in texts:
        for word in _WORD.findall(text):
            words[word.casefold()[:_MAX_WORD]] = None
            for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", word):
                words[part.casefold()[:_MAX_WORD]] = None
    return sorted(list(words)[:_MAX_WORDS])


def query_words(text: str) -> list[str]:
    """The case-folded words of a search: each must begin a word of the asset's."""
    return [word.casefold()[:_MAX_WORD] for word in dict.fromkeys(_WORD.findall(text))][:_MAX_WORDS]
