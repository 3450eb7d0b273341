"""Secrets at rest: envelope encryption bound to a tenant and a purpose.

Each secret gets its own data key (AES-256-GCM), which the master key wraps (AES-256-GCM). Tenant and purpose are
the associated data of both, so that a ciphertext copied to another tenant's row does not open (NIST SP 800-38D).
Form of the text: `v1.<base64url of wrap nonce(12) | wrapped key(48) | nonce(12) | ciphertext+tag>`.
"""

from __future__ import annotations

import base64
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_PREFIX = "v1."
_NONCE = 12
_WRAPPED = 48


class SecretBox:
    """Encrypts and opens texts for one deployment. `master_key` is 32 bytes."""

    def __init__(self, master_key: bytes) -> None:
        if len(master_key) != 32:
            raise ValueError("the master key must be 32 bytes")
        self._master = AESGCM(master_key)

    @staticmethod
    def _bound(tenant: str, purpose: str) -> bytes:
        return f"lily\x00{tenant}\x00{purpose}".encode()

    def seal(self, plaintext: str, *, tenant: str, purpose: str) -> str:
        bound = self._bound(tenant, purpose)
        data_key = secrets.token_bytes(32)
        wrap_nonce, nonce = secrets.token_bytes(_NONCE), secrets.token_bytes(_NONCE)
        wrapped = self._master.encrypt(wrap_nonce, data_key, bound)
        sealed = AESGCM(data_key).encrypt(nonce, plaintext.encode(), bound)
        return _PREFIX + base64.urlsafe_b64encode(wrap_nonce + wrapped + nonce + sealed).decode()

    def open(self, text: str, *, tenant: str, purpose: str) -> str:
        """The plaintext; ValueError when the text is broken or bound to another tenant or purpose."""
        if not text.startswith(_PREFIX):
            raise ValueError("not a sealed secret of a known version")
        raw = base64.urlsafe_b64decode(text[len(_PREFIX) :])
        bound = self._bound(tenant, purpose)
        wrap_nonce, wrapped = raw[:_NONCE], raw[_NONCE : _NONCE + _WRAPPED]
        nonce, sealed = raw[_NONCE + _WRAPPED : 2 * _NONCE + _WRAPPED], raw[2 * _NONCE + _WRAPPED :]
        try:
            data_key = self._master.decrypt(wrap_nonce, wrapped, bound)
            return AESGCM(data_key).decrypt(nonce, sealed, bound).decode()
        except InvalidTag:
            raise ValueError("the secret does not open for this tenant and purpose") from None
