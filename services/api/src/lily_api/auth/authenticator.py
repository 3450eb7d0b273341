"""From a request's headers to its principal, in microseconds when the credential was seen a moment ago.

An answer from the database is kept for `TTL_SECONDS`: so long may a revocation made by another process take to be
felt here; one made by this process is felt at once. Requests that wait for the same answer share one look-up, and a
credential in steady use is looked up again before its answer is too old, so that none of its requests has to wait.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from lily_api.auth import credentials, repository
from lily_api.auth.principal import GRANTABLE, Principal, Scope
from lily_api.auth.tokens import TokenSigner
from lily_common.config import Settings
from lily_common.errors import ForbiddenError, NotFoundError, UnauthenticatedError
from lily_common.logs import get_logger

log = get_logger(__name__)

TTL_SECONDS = 1.5
#: What is asked for with less than this left is looked up again meanwhile.
_RENEW_SECONDS = TTL_SECONDS / 2
_CACHE_SIZE = 20_000
_FLUSH_SECONDS = 10.0
_MAX_CREDENTIAL = 8192
TENANT_HEADER = "x-lily-tenant"


@dataclass(frozen=True, slots=True)
class _Known:
    """A credential's answer: whom it names, until when it may be asked from memory, when it ends by itself."""

    principal: Principal | None
    refusal: UnauthenticatedError | None
    fresh_until: float
    expires_at: float


class Authenticator:
    """Checks API keys, the API's own JWTs and the operator's key. One per process; use it inside `running()`."""

    def __init__(
        self, settings: Settings, sessions: async_sessionmaker[AsyncSession], signer: TokenSigner
    ) -> None:
        admin = settings.admin_key.get_secret_value()
        self._admin_digest = hashlib.sha256(admin.encode()).digest() if admin else None
        self._sessions = sessions
        self._signer = signer
        self._known: dict[bytes, _Known] = {}
        self._tenants: dict[str, tuple[bool, float]] = {}
        self._pending: dict[bytes, asyncio.Task[_Known]] = {}
        self._generation = 0
        self._used: dict[tuple[str, str], datetime] = {}

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """The caller. Raises UnauthenticatedError (401), and 403/404 for a tenant header that does not fit."""
        credential = _credential(headers)
        digest = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        if self._admin_digest is not None and hmac.compare_digest(digest, self._admin_digest):
            return await self._operator(headers.get(TENANT_HEADER, ""))
        known = self._known.get(digest)
        if known is None or known.fresh_until <= time.monotonic():
            # Shielded: a caller that goes away must not take the answer from the others.
            known = await asyncio.shield(self._ask(digest, credential))
        if known.principal is None:
            assert known.refusal is not None
            raise _again(known.refusal)
        if known.expires_at <= time.time():
            raise UnauthenticatedError("the credential has expired", code="expired-credentials")
        stated = headers.get(TENANT_HEADER)
        if stated and stated != known.principal.tenant:
            raise ForbiddenError("only the operator may act for another tenant", code="wrong-tenant")
        return known.principal

    def remembered(self, credential: str) -> Principal | None:
        """The caller when this credential was found good a moment ago; None says nothing about it."""
        digest = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        known, now = self._known.get(digest), time.monotonic()
        if known is None or known.principal is None:
            return None
        if known.fresh_until <= now or known.expires_at <= time.time():
            return None
        if known.fresh_until - now < _RENEW_SECONDS and digest not in self._pending:
            self._ask(digest, credential).add_done_callback(_renewed)
        return known.principal

    def forget(self) -> None:
        """Ask the database again for every credential: called when this process changed one."""
        self._generation += 1  # what is being looked up right now may be older than the change
        self._known.clear()
        self._tenants.clear()
        self._pending.clear()

    def used(self, kind: str, identifier: str) -> None:
        """Note that a `key` or `client` was used now; written to the database with the next batch."""
        self._used[kind, identifier] = datetime.now(UTC)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Writes the times of last use, every few seconds and at the end."""
        task = asyncio.create_task(self._flush_forever(), name="auth-last-used")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self._flush()

    async def _operator(self, tenant: str) -> Principal:
        if tenant and not await self._tenant_exists(tenant):
            raise NotFoundError("there is no such tenant", code="unknown-tenant")
        return Principal(tenant, "operator", frozenset(Scope), is_operator=True)

    async def _tenant_exists(self, tenant: str) -> bool:
        held = self._tenants.get(tenant)
        if held is not None and held[1] > time.monotonic():
            return held[0]
        async with self._sessions() as session:
            exists = await repository.tenant_exists(session, tenant)
        _make_room(self._tenants)
        self._tenants[tenant] = (exists, time.monotonic() + TTL_SECONDS)
        return exists

    def _ask(self, digest: bytes, credential: str) -> asyncio.Task[_Known]:
        """The look-up of this credential that is under way, or a new one."""
        pending = self._pending.get(digest)
        if pending is None:
            pending = self._pending[digest] = asyncio.create_task(self._look_up(digest, credential))
        return pending

    async def _look_up(self, digest: bytes, credential: str) -> _Known:
        generation = self._generation
        try:
            known = await self._check(credential)
        finally:
            if self._pending.get(digest) is asyncio.current_task():
                del self._pending[digest]
        if generation == self._generation:
            _make_room(self._known)
            self._known[digest] = known
        return known

    async def _check(self, credential: str) -> _Known:
        # From before the look-up: what is revoked while it runs is asked again in time.
        fresh_until = time.monotonic() + TTL_SECONDS
        prefix = credentials.prefix_of(credential)
        try:
            if prefix is not None:
                principal, expires_at = await self._check_key(prefix, credential)
            elif credential.count(".") == 2:
                principal, expires_at = await self._check_token(credential)
            else:
                raise _invalid()
        except UnauthenticatedError as refusal:
            return _Known(None, refusal, fresh_until, float("inf"))
        return _Known(principal, None, fresh_until, expires_at)

    async def _check_key(self, prefix: str, credential: str) -> tuple[Principal, float]:
        async with self._sessions() as session:
            key = await repository.find_key(session, prefix)
        if key is None or not credentials.matches(credential, key.digest):
            raise _invalid()
        if key.revoked_at is not None:
            raise UnauthenticatedError("the API key has been revoked", code="revoked-credentials")
        expires_at = key.expires_at.timestamp() if key.expires_at is not None else float("inf")
        if expires_at <= time.time():
            raise UnauthenticatedError("the API key has expired", code="expired-credentials")
        self.used("key", key.id)
        return Principal(key.tenant, f"key:{key.id}", frozenset(key.scopes)), expires_at

    async def _check_token(self, credential: str) -> tuple[Principal, float]:
        claims = self._signer.verify(credential)
        async with self._sessions() as session:
            client = await repository.find_client(session, claims.subject)
        if client is None or client.tenant != claims.tenant:
            raise _invalid()
        if client.revoked_at is not None:
            raise UnauthenticatedError("the client has been revoked", code="revoked-credentials")
        # A scope taken from the client since the token was issued is gone.
        scopes = claims.scopes & frozenset(client.scopes) & GRANTABLE
        self.used("client", client.id)
        return Principal(client.tenant, f"client:{client.id}", scopes), claims.expires_at

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self._flush()

    async def _flush(self) -> None:
        used, self._used = self._used, {}
        if not used:
            return
        try:
            async with self._sessions.begin() as session:
                await repository.touch(session, used)
        except Exception as error:  # a time of last use is worth no failure
            log.warning("times of last use not written", error=str(error)[:200])


def _renewed(task: asyncio.Task[_Known]) -> None:
    """Nobody waits for it: where it failed, a request that finds nothing fresh asks again and is told."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("credential not looked up again", error=str(error)[:200])


def _credential(headers: Mapping[str, str]) -> str:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer" or not value.strip():
            raise UnauthenticatedError("the Authorization header has to be: Bearer <API key or token>")
        credential = value.strip()
    else:
        credential = headers.get("x-api-key", "").strip()
    if not credential:
        raise UnauthenticatedError("send an API key or token as Authorization: Bearer, or a key as X-API-Key")
    if len(credential) > _MAX_CREDENTIAL:
        raise _invalid()
    return credential


def _invalid() -> UnauthenticatedError:
    return UnauthenticatedError("the credential is not valid", code="invalid-credentials")


def _again(refusal: UnauthenticatedError) -> UnauthenticatedError:
    """A fresh copy: a cached exception would collect the traceback of every request."""
    return UnauthenticatedError(refusal.detail, code=refusal.code)


def _make_room(cache: dict[bytes, _Known] | dict[str, tuple[bool, float]]) -> None:
    # Cleared whole: simpler than an order of use, and refilled by one query per live credential.
    if len(cache) >= _CACHE_SIZE:
        cache.clear()
