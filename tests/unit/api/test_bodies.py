"""Decoding of request bodies."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily_api.bodies import decompress
from lily_common.errors import LilyError, MalformedError, PayloadTooLargeError, UnsupportedMediaTypeError


def _bare(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


@given(st.binary(max_size=2000), st.binary(max_size=100))
def test_what_was_packed_comes_out(content: bytes, more: bytes) -> None:
    assert decompress(gzip.compress(content), "gzip", 5000) == content
    assert decompress(gzip.compress(content) + gzip.compress(more), "x-gzip", 5000) == content + more
    assert decompress(zlib.compress(content), "deflate", 5000) == content
    assert decompress(_bare(content), "deflate", 5000) == content


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate"]))
def test_nothing_but_a_clear_answer_to_rubbish(content: bytes, encoding: str) -> None:
    try:
        decompress(content, encoding, 1000)
    except LilyError as error:
        assert error.status in (400, 413)


def test_a_bomb_is_stopped_at_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    for packed in (bomb, gzip.compress(b"\0" * 900) * 3):
        with pytest.raises(PayloadTooLargeError):
            decompress(packed, "gzip", 1000)
    assert len(decompress(gzip.compress(b"\0" * 1000), "gzip", 1000)) == 1000


@pytest.mark.parametrize("cut", [1, 5, 12, 40])
def test_a_cut_body_is_refused(cut: int) -> None:
    packed = gzip.compress(bytes(range(256)))
    with pytest.raises(MalformedError):
        decompress(packed[:cut], "gzip", 1000)


def test_other_encodings_are_named_in_the_answer() -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="'br'"):
        decompress(b"", "br", 10)
