"""Cursors."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily_api import paging
from lily_common.errors import InvalidInputError

_TEXT = st.text(alphabet=st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))


@given(_TEXT, st.integers(-(2**62), 2**62))
def test_a_key_comes_back(name: str, number: int) -> None:
    assert paging.decode(paging.encode(name, number), str, int) == (name, number)


@given(st.datetimes(timezones=st.just(UTC)), _TEXT)
def test_a_time_and_id_come_back(at: datetime, name: str) -> None:
    assert paging.decode_time_id(paging.encode_time_id(at, name)) == (at, name)


@given(st.text(max_size=200))
def test_rubbish_is_an_input_error(cursor: str) -> None:
    for kinds in ((str,), (int,), (str, int)):
        try:
            paging.decode(cursor, *kinds)
        except InvalidInputError as error:
            assert error.errors[0].field == "query.cursor"


@pytest.mark.parametrize(
    "key", [["a"], ["a", "b", "c"], [True, 1], [1.5, 1], [None, 1], [2**63, 1], ["\x00", "a"], []]
)
def test_another_lists_cursor_is_refused(key: list) -> None:
    with pytest.raises(InvalidInputError):
        paging.decode(paging.encode(*key), int, int)
    with pytest.raises(InvalidInputError):
        paging.decode_time_id(paging.encode(*key))


def test_no_cursor_is_the_first_page() -> None:
    assert paging.decode(None, str) is None
    assert paging.decode("", str) is None
