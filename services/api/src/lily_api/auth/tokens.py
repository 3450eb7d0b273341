"""JWTs: RS256 only, signed with the PEM key of LILY_SIGNING_KEY_FILE, checked for algorithm, issuer and audience.

The file may hold several PEM keys: the first signs, all verify, so that a key can be replaced with overlap.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jose import jwk, jwt
from jose.backends.base import Key
from jose.exceptions import ExpiredSignatureError, JOSEError

from lily_common.config import Settings
from lily_common.errors import UnauthenticatedError

ALGORITHM = "RS256"
_LEEWAY_SECONDS = 5
_MIN_BITS = 2048
_MAX_TOKEN = 8192
_PEM_BLOCK = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_CHECKS = {
    "require_aud": True,
    "require_iat": True,
    "require_exp": True,
    "require_iss": True,
    "require_sub": True,
    "require_jti": True,
    "verify_at_hash": False,
    "leeway": _LEEWAY_SECONDS,
}


@dataclass(frozen=True, slots=True)
class Claims:
    """What Lily reads from a verified token. `expires_at` is a Unix time in seconds."""

    subject: str
    tenant: str
    scopes: frozenset[str]
    expires_at: float


@dataclass(frozen=True, slots=True)
class _SigningKey:
    kid: str
    private: Key
    public: Key
    public_jwk: dict[str, str]


class TokenSigner:
    """Issues and verifies the API's own tokens."""

    def __init__(self, keys: list[_SigningKey], *, issuer: str, audience: str, lifetime: int) -> None:
        if not keys:
            raise ValueError("no signing key")
        self._keys = {key.kid: key for key in keys}
        self._current = keys[0]
        self._issuer = issuer
        self._audience = audience
        self.lifetime = lifetime

    @classmethod
    def from_settings(cls, settings: Settings) -> TokenSigner:
        """Raises ValueError with what to set when the key is missing, not PEM, not RSA or too short."""
        return cls(
            _load_keys(settings),
            issuer=settings.jwt_issuer,
            audience=settings.audience,
            lifetime=settings.token_seconds,
        )

    def issue(self, *, subject: str, tenant: str, scopes: frozenset[str]) -> str:
        now = int(time.time())
        claims = {
            "iss": self._issuer,
            "aud": self._audience,
            "sub": subject,
            "iat": now,
            "exp": now + self.lifetime,
            "jti": secrets.token_hex(16),
            "tenant": tenant,
            "scope": " ".join(sorted(scopes)),
        }
        headers = {"kid": self._current.kid}
        token: str = jwt.encode(claims, self._current.private, algorithm=ALGORITHM, headers=headers)
        return token

    def sign(self, claims: dict[str, Any], kind: str) -> str:
        """A compact JWS of `claims`, for others to check with the JWKS. `kind` (its `typ`) and the lack of an audience
        tell it from an access token."""
        headers = {"kid": self._current.kid, "typ": kind}
        signed: str = jwt.encode(claims, self._current.private, algorithm=ALGORITHM, headers=headers)
        return signed

    def verify(self, token: str) -> Claims:
        """The claims of a token of this issuer. Raises UnauthenticatedError, which says so when it has expired."""
        if len(token) > _MAX_TOKEN:
            raise UnauthenticatedError("the token is not valid", code="invalid-credentials")
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.get(str(header.get("kid", "")))
            # jose checks this too; here it holds before any key is touched.
            if key is None or header.get("alg") != ALGORITHM:
                raise UnauthenticatedError("the token is not valid", code="invalid-credentials")
            claims: dict[str, Any] = jwt.decode(
                token,
                key.public,
                algorithms=[ALGORITHM],
                audience=self._audience,
                issuer=self._issuer,
                options=_CHECKS,
            )
        except ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired", code="expired-credentials") from None
        except (JOSEError, ValueError, TypeError, KeyError, RecursionError):
            raise UnauthenticatedError("the token is not valid", code="invalid-credentials") from None
        return _read_claims(claims)

    def jwks(self) -> dict[str, Any]:
        """The JSON Web Key Set (RFC 7517): public parts of every key that verifies."""
        return {"keys": [key.public_jwk for key in self._keys.values()]}


def _read_claims(claims: dict[str, Any]) -> Claims:
    subject, tenant, scope = claims.get("sub"), claims.get("tenant"), claims.get("scope", "")
    if not (
        isinstance(subject, str) and subject and isinstance(tenant, str) and tenant and isinstance(scope, str)
    ):
        raise UnauthenticatedError("the token is not valid", code="invalid-credentials")
    return Claims(subject, tenant, frozenset(scope.split()), float(claims["exp"]))


def _load_keys(settings: Settings) -> list[_SigningKey]:
    path = settings.signing_key_file
    if path is None:
        if settings.dev_signing_key:
            return [_signing_key(rsa.generate_private_key(public_exponent=65537, key_size=_MIN_BITS))]
        raise ValueError(
            "LILY_SIGNING_KEY_FILE is not set: name a PEM file with an RSA private key "
            "(openssl genrsa -out signing.pem 3072), or set LILY_DEV_SIGNING_KEY=true for a throw-away key"
        )
    try:
        blocks = _PEM_BLOCK.findall(path.read_bytes())
    except OSError as error:
        raise ValueError(f"LILY_SIGNING_KEY_FILE cannot be read: {error}") from None
    if not blocks:
        raise ValueError(f"LILY_SIGNING_KEY_FILE ({path}) holds no PEM private key")
    return [_signing_key(_load_pem(block)) for block in blocks]


def _load_pem(block: bytes) -> rsa.RSAPrivateKey:
    key = serialization.load_pem_private_key(block, password=None)
    if not isinstance(key, rsa.RSAPrivateKey) or key.key_size < _MIN_BITS:
        raise ValueError(f"LILY_SIGNING_KEY_FILE has to hold RSA keys of at least {_MIN_BITS} bits")
    return key


def _signing_key(private: rsa.RSAPrivateKey) -> _SigningKey:
    private_pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    public = jwk.construct(public_pem.decode(), ALGORITHM)
    parts = {name: str(value) for name, value in public.to_dict().items()}
    kid = _thumbprint(parts)
    public_jwk = {"kty": "RSA", "use": "sig", "alg": ALGORITHM, "kid": kid, "n": parts["n"], "e": parts["e"]}
    return _SigningKey(kid, jwk.construct(private_pem.decode(), ALGORITHM), public, public_jwk)


def _thumbprint(parts: dict[str, str]) -> str:
    """RFC 7638: the key's name follows from the key."""
    canonical = json.dumps(
        {"e": parts["e"], "kty": "RSA", "n": parts["n"]}, separators=(",", ":"), sort_keys=True
    )
    return base64.urlsafe_b64encode(hashlib.sha256(canonical.encode()).digest()).decode().rstrip("=")
