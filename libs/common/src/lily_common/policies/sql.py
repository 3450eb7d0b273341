"""Masks as SQL of the engines that enforce them.

A mask has the type of what it masks. Hashes and parts are of text alone: of any other type nothing is shown.
"""

from __future__ import annotations

from lily_common.policies.model import Mask, MaskKind

_HIDDEN = "*****"


def trino(mask: Mask, column: str, column_type: str) -> str:
    """An expression over `column` for Trino; `column_type` is how Trino names its type."""
    name = _quoted(column)
    if mask.kind is MaskKind.SQL and mask.expression is not None:
        return mask.expression.replace("{column}", name)
    if mask.kind is MaskKind.CONSTANT and mask.constant is not None:
        return f"TRY_CAST({_literal(mask.constant)} AS {column_type})"
    if not column_type.lower().startswith(("varchar", "char")):
        return "NULL"
    if mask.kind is MaskKind.HASH:
        return f"CAST(lower(to_hex(sha256(to_utf8(CAST({name} AS varchar))))) AS {column_type})"
    if mask.kind is MaskKind.PARTIAL:
        return f"CAST({_partial(mask, name)} AS {column_type})"
    return "NULL"


def postgres(mask: Mask, column: str, column_type: str) -> str:
    """An expression over `column` for PostgreSQL; `column_type` is how `format_type` names its type."""
    name = _quoted(column)
    nothing = f"NULL::{column_type}"
    if mask.kind is MaskKind.SQL and mask.expression is not None:
        return f"({mask.expression.replace('{column}', name)})::{column_type}"
    if mask.kind is MaskKind.CONSTANT and mask.constant is not None:
        return f"{_literal(mask.constant)}::{column_type}"
    if not column_type.startswith(("text", "character", "citext")):
        return nothing
    if mask.kind is MaskKind.HASH:
        return f"encode(sha256(convert_to({name}::text, 'UTF8')), 'hex')::{column_type}"
    if mask.kind is MaskKind.PARTIAL:
        return f"({_partial(mask, name)})::{column_type}"
    return nothing


def _partial(mask: Mask, name: str) -> str:
    """The ends that may be seen; of a value too short to hide something nothing."""
    parts = [_literal(_HIDDEN)]
    if mask.keep_first:
        parts.insert(0, f"substr({name}, 1, {mask.keep_first})")
    if mask.keep_last:
        parts.append(f"substr({name}, length({name}) - {mask.keep_last - 1})")
    shown = " || ".join(parts)
    least = mask.keep_first + mask.keep_last
    return (
        f"CASE WHEN {name} IS NULL THEN NULL "
        f"WHEN length({name}) <= {least} THEN {_literal(_HIDDEN)} ELSE {shown} END"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
