"""Keys of changed rows among many rows: exactly those, null like any other value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from hypothesis import given
from hypothesis import strategies as st

from lily_spark.upkeep.rewriting import Keys

SCHEMA = pa.schema({"tenant": pa.string(), "number": pa.int32()})
row = st.tuples(st.sampled_from([None, "", "a", "b"]), st.none() | st.integers(-2, 2))


def table(rows: list[tuple[Any, ...]], *names: str) -> pa.Table:
    held = pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in rows], schema=SCHEMA)
    return held.select(list(names or SCHEMA.names))


def tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(each.values()) for each in rows.to_pylist()]


@given(st.lists(row, max_size=6), st.lists(row, max_size=30))
def test_rows_with_these_keys_and_the_others(wanted: list[Any], held: list[Any]) -> None:
    for names in (("tenant", "number"), ("number",), ("tenant",)):
        keys = Keys(table(wanted, *names))
        rows = table(held)
        places = [SCHEMA.names.index(name) for name in names]
        chosen = {tuple(each[place] for place in places) for each in wanted}
        fits = [tuple(each[place] for place in places) in chosen for each in held]
        assert tuples(keys.of(rows)) == [each for each, fit in zip(held, fits, strict=True) if fit]
        assert tuples(keys.others(rows)) == [each for each, fit in zip(held, fits, strict=True) if not fit]
        near = ds.dataset(rows).to_table(filter=keys.condition())
        assert tuples(keys.of(near)) == tuples(keys.of(rows))
