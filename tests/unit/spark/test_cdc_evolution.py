"""Which changes of a source's columns a table takes, and which it refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily_spark.cdc.connect import RefusedError
from lily_spark.cdc.evolution import common, evolve

I8, I16, I32, I64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
F32, F64, TEXT = pa.float32(), pa.float64(), pa.string()


def dec(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale)


@pytest.mark.parametrize(
    ("held", "coming", "both"),
    [
        (I32, I64, I64),
        (I64, I32, I64),
        (I8, I16, I16),
        (F32, F64, F64),
        (dec(10, 2), dec(12, 2), dec(12, 2)),
        (dec(10, 2), dec(10, 4), dec(12, 4)),
        (dec(12, 4), dec(10, 2), dec(12, 4)),
        (I32, dec(12, 2), dec(12, 2)),
        (I64, dec(12, 2), dec(21, 2)),
        (pa.list_(I32), pa.list_(I64), pa.list_(I64)),
        (dec(38, 0), dec(38, 2), None),
        (I32, TEXT, None),
        (TEXT, I32, None),
        (I64, F64, None),
        (pa.date32(), pa.timestamp("us", "UTC"), None),
        (pa.binary(), TEXT, None),
        (pa.list_(I32), I32, None),
    ],
)
def test_the_common_type_loses_nothing(
    held: pa.DataType, coming: pa.DataType, both: pa.DataType | None
) -> None:
    assert common(held, coming) == both
    assert common(coming, held) == both


KINDS = st.one_of(
    st.sampled_from([I8, I16, I32, I64]),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: dec(p, s))),
)


@given(KINDS, KINDS)
def test_a_common_type_holds_every_value_of_both(one: pa.DataType, other: pa.DataType) -> None:
    both = common(one, other)
    if both is not None:
        assert common(both, one) == both
        assert common(both, other) == both


def test_new_columns_are_added_and_missing_ones_stay() -> None:
    held = [pa.field("id", I32), pa.field("a", TEXT)]
    change = evolve(held, [pa.field("id", I32), pa.field("b", F64)])
    assert change.columns == (*held, pa.field("b", F64))
    assert (change.added, change.widened) == ((pa.field("b", F64),), {})


def test_widened_and_added_at_once() -> None:
    change = evolve([pa.field("id", I32)], [pa.field("id", I64), pa.field("b", F64)])
    assert change.columns == (pa.field("id", I64), pa.field("b", F64))
    assert change.widened == {"id": I64}


@pytest.mark.parametrize("coming", [pa.field("a", I32), pa.field("A", TEXT)])
def test_what_would_corrupt_is_refused_by_name(coming: pa.Field) -> None:
    with pytest.raises(RefusedError, match=f"column '{coming.name}'"):
        evolve([pa.field("a", TEXT)], [coming])
