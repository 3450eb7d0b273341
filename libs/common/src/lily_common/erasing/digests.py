"""Keyed digests of what is erased: whoever has no key cannot find out by guessing what was.

An asset's is of its qualified name; a person's of the identifier's words, as `words` takes them from a text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

#: `address`: an e-mail address or what has its form, taken whole. `words`: words side by side, whatever parts them.
Form = Literal["address", "words"]

_ADDRESS: Final = re.compile(r"[\w.+%'-]+@[\w.-]*\w")
_WORD: Final = re.compile(r"\w+")
MAX_WORDS: Final = 8
MIN_CHARACTERS: Final = 3


class DigestKey:
    """The deployment's key for digests of erased things, derived from its master key."""

    def __init__(self, master: bytes) -> None:
        self.__setstate__(HKDF(SHA256(), 32, salt=None, info=b"lily erasures 1").derive(master))

    def __getstate__(self) -> bytes:
        return self._derived

    def __setstate__(self, derived: bytes) -> None:
        self._derived = derived
        self._start = blake2b(key=derived, digest_size=16)

    def asset(self, tenant: str, qualified_name: str) -> str:
        return self._digest("asset", tenant, qualified_name)

    def person(self, tenant: str, form: Form, token: str) -> str:
        return self._digest(form, tenant, token)

    def tenant(self, tenant: str) -> str:
        return self._digest("tenant", tenant, "")

    def _digest(self, *parts: str) -> str:
        mac = self._start.copy()
        mac.update("\x00".join(parts).encode("utf-8", "surrogatepass"))
        return mac.hexdigest()


@dataclass(frozen=True, slots=True)
class Identifier:
    """A person's identifier: its form, its normalised text and how many words that has."""

    form: Form
    token: str
    words: int


def identifier(text: str) -> Identifier:
    """What to look for. Raises ValueError, fit to be shown, when `text` is too short or too long to be one."""
    text = text.strip()
    if len(text) < MIN_CHARACTERS:
        raise ValueError(f"an identifier has at least {MIN_CHARACTERS} characters")
    if _ADDRESS.fullmatch(text):
        return Identifier("address", folded(text), 1)
    words = _WORD.findall(text)
    if not words or len(words) > MAX_WORDS:
        raise ValueError(f"an identifier has one to {MAX_WORDS} words")
    return Identifier("words", folded(" ".join(words)), len(words))


def folded(text: str) -> str:
    """How texts are compared: compatibility forms and letter case do not count."""
    return unicodedata.normalize("NFKC", text).casefold()


def tokens(text: str, form: Form, words: int) -> Iterator[tuple[str, int, int]]:
    """(normalised token, start, end) of everything in `text` that an identifier of that form and length may be."""
    if form == "address":
        if "@" in text:
            for found in _ADDRESS.finditer(text):
                yield folded(found.group()), *found.span()
        return
    spans = [found.span() for found in _WORD.finditer(text)]
    for first in range(len(spans) - words + 1):
        window = spans[first : first + words]
        yield folded(" ".join(text[start:end] for start, end in window)), window[0][0], window[-1][1]
