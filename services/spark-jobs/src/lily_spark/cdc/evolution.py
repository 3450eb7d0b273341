"""How a table's columns change with what its source sends: pure.

A column that is new is added. Where the type is another, the column becomes what holds every value of both without loss,
if there is such a type; a narrower type than the table's is so taken as it is (messages from before a widening come
again after a crash). All else is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lily_spark.cdc.connect import RefusedError

_MAX_PRECISION = 38
#: Decimal digits that an integer of so many bits may have.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


@dataclass(frozen=True)
class Evolution:
    """The columns that the table is to have, what of them is new, and what is wider than it was."""

    columns: tuple[pa.Field, ...]
    added: tuple[pa.Field, ...] = ()
    widened: dict[str, pa.DataType] = field(default_factory=dict)


def evolve(held: Sequence[pa.Field], coming: Iterable[pa.Field]) -> Evolution:
    """What becomes of the columns `held` with rows of columns `coming`. Raises RefusedError, naming the column."""
    by_name = {column.name.lower(): column for column in held}
    added: list[pa.Field] = []
    widened: dict[str, pa.DataType] = {}
    for column in coming:
        known = by_name.get(column.name.lower())
        if known is None:
            added.append(column)
            continue
        if known.name != column.name:
            raise RefusedError(f"column {column.name!r} is already there as {known.name!r}")
        both = common(known.type, column.type)
        if both is None:
            raise RefusedError(f"column {column.name!r} was {known.type} and is now {column.type}")
        if both != known.type:
            widened[column.name] = both
    columns = [pa.field(column.name, widened.get(column.name, column.type)) for column in held]
    return Evolution((*columns, *added), tuple(added), widened)


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds every value of both without loss; None when there is none."""
    if one == other:
        return one
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    if _numeric(one) and _numeric(other):
        return _decimal(one, other)
    if pa.types.is_list(one) and pa.types.is_list(other):
        items = common(one.value_type, other.value_type)
        return None if items is None else pa.list_(items)
    return None


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _decimal(*kinds: pa.DataType) -> pa.DataType | None:
    scale = max(kind.scale if pa.types.is_decimal(kind) else 0 for kind in kinds)
    whole = max(
        kind.precision - kind.scale if pa.types.is_decimal(kind) else _DIGITS[kind.bit_width]
        for kind in kinds
    )
    return pa.decimal128(whole + scale, scale) if whole + scale <= _MAX_PRECISION else None


def plain(kind: pa.DataType) -> pa.DataType:
    """`kind` with the member names that pyarrow itself gives, so that equal types compare equal."""
    if pa.types.is_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(member.name, plain(member.type)) for member in kind])
    return kind


def ddl(kind: pa.DataType) -> str:
    """The type in Spark SQL."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{ddl(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl(kind.key_type)}, {ddl(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ", ".join(f"`{member.name}`: {ddl(member.type)}" for member in kind) + ">"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return _DDL[kind]


_DDL = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}
