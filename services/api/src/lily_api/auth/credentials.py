"""Forms of the secrets that Lily hands out, and how they are kept: a prefix for look-up and a SHA-256.

The secrets carry 256 random bits, so that a plain hash is enough (a slow hash guards guessable passwords).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
from dataclasses import dataclass

KEY_MARK = "lily_"
_ALPHABET = string.ascii_lowercase + string.digits
_PREFIX_LENGTH = 8
_SECRET_BYTES = 32  # 43 characters of base64url


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret at the only moment when it is known: `text` goes to its owner, `prefix` and `digest` are kept."""

    text: str
    prefix: str
    digest: str


def new_id(kind: str) -> str:
    """A random public identifier, e.g. `key_5f…` (96 bits)."""
    return f"{kind}_{secrets.token_hex(12)}"


def new_api_key() -> NewSecret:
    """`lily_<prefix8>_<secret43>`."""
    prefix = "".join(secrets.choice(_ALPHABET) for _ in range(_PREFIX_LENGTH))
    text = f"{KEY_MARK}{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return NewSecret(text, prefix, digest_of(text))


def new_client_secret() -> NewSecret:
    """`lcs_<secret43>`; its prefix is for people to recognise it by."""
    text = f"lcs_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return NewSecret(text, text[:_PREFIX_LENGTH], digest_of(text))


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def prefix_of(api_key: str) -> str | None:
    """The look-up prefix of a well-formed API key, else None."""
    if not api_key.startswith(KEY_MARK):
        return None
    prefix, _, secret = api_key[len(KEY_MARK) :].partition("_")
    if len(prefix) != _PREFIX_LENGTH or not secret or not set(prefix) <= set(_ALPHABET):
        return None
    return prefix


def matches(text: str, digest: str) -> bool:
    """Whether `text` is the secret behind `digest`, in constant time."""
    return hmac.compare_digest(digest_of(text), digest)
