"""One asset's document: registers merged, pruned of what they out-date, and the fields that are derived. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lily_common.documents import (
    StoredRegister,
    asset_id,
    decode_registers,
    encode_register,
    escape_key,
    search_words,
    version_time,
    without_sensitive,
)
from lily_common.names import parent_of
from lily_common.state import DELETED, SEPARATOR, assemble
from lily_spark.mirror.changes import AssetChange, trimmed
from lily_spark.mirror.settings import MirrorConfig

Registers = dict[str, StoredRegister]


def merged(
    stored: Mapping[str, Any] | None, change: AssetChange, config: MirrorConfig
) -> dict[str, Any] | None:
    """The document after `change`, or None when the stored one knows it all already.

    A stub (an expired asset) comes back as `partial`: what it held before is in the lake only, until upkeep
    has merged it in.
    """
    held = decode_registers(stored) if stored else {}
    registers = dict(held)
    for key, register in change.registers.items():
        known = held.get(key)
        if known is None or register.version > known.version:
            registers[key] = register
    registers = pruned(registers)
    if not registers or (stored and not stored.get("expired") and _same(registers, held)):
        return None
    document = build(change.tenant, change.qualified_name, registers, config)
    document["rev"] = (stored["rev"] if stored else 0) + 1
    document["size"] = (stored.get("size", 0) if stored else 0) + change.size
    if stored and (stored.get("expired") or stored.get("partial")):
        document["partial"] = True
    if stored and "seen" in stored:
        document["seen"] = stored["seen"]
    return document


def rebuilt(
    stored: Mapping[str, Any] | None, change: AssetChange, config: MirrorConfig, settled: datetime
) -> dict[str, Any]:
    """The document made anew from the lake's whole row, under today's policy.

    Of the stored one only that is kept which the lake may not have yet: registers accepted at or after `settled`.
    """
    sensitive = config.sensitive_of(change.tenant)
    fresh = AssetChange(change.tenant, change.qualified_name, dict(change.registers))
    for key, register in decode_registers(stored or {}).items():
        if register.accepted >= settled:
            clean = without_sensitive(register.data, sensitive)
            fresh.put(*trimmed(key, replace(register, data=clean), sensitive))
    document = build(change.tenant, change.qualified_name, pruned(fresh.registers), config)
    document["rev"] = (stored["rev"] if stored else 0) + 1
    document["size"] = change.size
    return document


def stub(tenant: str, qualified_name: str, rev: int) -> dict[str, Any]:
    """What stays of an asset that is no longer recent: enough to know that the lake has it."""
    name = asset_id(tenant, qualified_name)
    return {"_id": name, "tenant": tenant, "qualified_name": qualified_name, "expired": True, "rev": rev}


def _same(left: Registers, right: Registers) -> bool:
    return left.keys() == right.keys() and all(left[key].version == right[key].version for key in left)


def pruned(registers: Registers) -> Registers:
    """Without the registers that `assemble` would hide for good: older than the tombstone, or a field older
    than its aspect's upsert. What hides them stays, so one that arrives again is hidden again."""
    tombstone = registers[DELETED].version if DELETED in registers else ""
    kept: Registers = {}
    for key, register in registers.items():
        if key != DELETED and register.version < tombstone:
            continue
        kind, _, rest = key.partition(SEPARATOR)
        if kind == "field":
            upsert = registers.get(f"aspect{SEPARATOR}{rest.partition(SEPARATOR)[0]}")
            if upsert is not None and register.version <= upsert.version:
                continue
        kept[key] = register
    return kept


def build(tenant: str, qualified_name: str, registers: Registers, config: MirrorConfig) -> dict[str, Any]:
    """The document of these registers, but for `rev` and `size`."""
    state = assemble(registers)
    core = state.core
    name = _text(core.get("name")) or qualified_name.rstrip("/").rsplit("/", 1)[-1]
    accepted = max(register.accepted for register in registers.values())
    return {
        "_id": asset_id(tenant, qualified_name),
        "tenant": tenant,
        "qualified_name": qualified_name,
        "asset_type": _text(core.get("asset_type")),
        "name": name,
        "parent": _text(core.get("parent")) or parent_of(qualified_name),
        "tags": sorted(state.tags),
        "deleted": state.deleted,
        "tombstone": registers[DELETED].version if DELETED in registers else "",
        "version": state.version,
        "search": [] if state.deleted else search_words(name, *reversed(qualified_name.split("/"))),
        "registers": {escape_key(key): encode_register(held) for key, held in sorted(registers.items())},
        "updated_at": version_time(state.version),
        "accepted_at": accepted,
        "expires_at": accepted + (config.keep_deleted if state.deleted else config.keep),
    }


def _text(value: Any) -> str | None:
    """A patch may set any JSON; what is indexed is text or nothing."""
    return value if isinstance(value, str) and value else None
