"""What is generated once per stack and kept: keys and passwords, readable by their owner only."""

from __future__ import annotations

import base64
import json
import secrets as random
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lily_local.files import write_atomic

_FILE = "secrets.json"
_SIGNING_KEY = "signing.pem"


@dataclass(frozen=True)
class Secrets:
    """The stack's secrets; `tenant` and `api_key` are empty until the API has made them."""

    stack_id: str
    admin_key: str
    postgres_password: str
    s3_access_key: str
    s3_secret_key: str
    master_key: str
    kafka_cluster_id: str
    tenant: str = ""
    api_key: str = ""

    def with_tenant(self, tenant: str, api_key: str) -> Secrets:
        return replace(self, tenant=tenant, api_key=api_key)


def ensure(home: Path) -> Secrets:
    """The secrets of the stack in `home`, generated on first use; writes the JWT signing key beside them."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    _ensure_signing_key(home)
    path = home / _FILE
    if path.exists():
        return Secrets(**json.loads(path.read_text()))
    made = Secrets(
        stack_id=uuid.uuid4().hex,
        admin_key="lily_admin_" + random.token_urlsafe(32),
        postgres_password=random.token_urlsafe(24),
        s3_access_key="LILY" + random.token_hex(8).upper(),
        s3_secret_key=random.token_urlsafe(30),
        master_key=base64.b64encode(random.token_bytes(32)).decode(),
        kafka_cluster_id=_cluster_id(),
    )
    save(home, made)
    return made


def _cluster_id() -> str:
    """A UUID in base64url, as Kafka makes them: none that begins with a dash, which its tools take for an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):
            return made


def save(home: Path, value: Secrets) -> None:
    write_atomic(home / _FILE, json.dumps(asdict(value), indent=1))


def signing_key_file(home: Path) -> Path:
    return home / _SIGNING_KEY


def _ensure_signing_key(home: Path) -> None:
    path = signing_key_file(home)
    if path.exists():
        return
    # Imported here: it is slow to load and needed once in a stack's life.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_atomic(path, pem.decode())
