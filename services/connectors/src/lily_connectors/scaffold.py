"""`python -m lily_connectors.scaffold NAME`: a new inbound connector's folder, complete enough to pass the suite.

What it writes is a start to edit: a signed webhook (HMAC-SHA256 of the body) whose `ping` changes nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from string import Template

_NAME = re.compile(r"^[a-z][a-z0-9_]{1,40}$")

_FILES: dict[str, str] = {
    "__init__.py": '"""$title: say in a line what its events become."""\n',
    "config.py": '''"""What a tenant sets for $title."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lily_connectors.config import ConnectorConfig, Namespace


class Config(ConnectorConfig):
    """Becomes the stored configuration, its JSON Schema and the console's form."""

    needs_secret: ClassVar[bool] = True
    makes_secret: ClassVar[bool] = True

    namespace: Namespace = Field(
        description="OpenLineage namespace of the assets that $title speaks of",
        examples=["postgres://shop-db:5432"],
    )
''',
    "inbound.py": '''"""$title's webhook: its signature, and the events that it sends."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final

from lily_common.errors import UnauthenticatedError
from lily_connectors.inbound import Event, Handler, InboundRequest, token_secret, wrong

SIGNATURE: Final = "x-$kind-signature"
SECRET_HEADERS: Final = frozenset({SIGNATURE})

new_secret = token_secret


def verify(request: InboundRequest, secrets: Sequence[str]) -> None:
    """Raises UnauthenticatedError (401) unless one of the secrets signed the body. Compares in constant time."""
    given = request.headers.get(SIGNATURE, "").encode("utf-8", "replace")
    good = False
    for secret in secrets:
        expected = hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest().encode()
        good |= hmac.compare_digest(expected, given)
    if not good:
        raise UnauthenticatedError(f"the signature in {SIGNATURE} is missing or not ours", code="signature-invalid")


def event_type(payload: Any, _request: InboundRequest) -> str:
    """The key into HANDLERS."""
    if not isinstance(payload, dict):
        raise wrong("", "the body must be a JSON object")
    return str(payload.get("type"))


def ping(_payload: Any, _request: InboundRequest) -> list[Event]:
    """A test of the connection changes nothing."""
    return []


#: One entry and at least one fixture per event type of the vendor.
HANDLERS: dict[str, Handler] = {
    "ping": ping,
}
''',
    "README.md": """# $title

Say in one paragraph what comes in and what it becomes; it is shown in the catalogue.

## Set up

## What is supported

| Event | Becomes |
|---|---|
| `ping` | nothing, answered 200 |

## Signature

`x-$kind-signature`: hexadecimal HMAC-SHA256 of the body.
""",
    "fixtures/config.json": '{"namespace": "postgres://shop-db:5432"}\n',
    "fixtures/in/ping__test.json": '{"type": "ping"}\n',
    "fixtures/in/ping__test.expected.json": "[]\n",
}


def scaffold(name: str, vendors: Path) -> Path:
    """Write the folder of connector `name`. Raises ValueError for an unfit name, FileExistsError when it is there."""
    if not _NAME.match(name):
        raise ValueError("a connector's name is a Python name in lower case, e.g. great_expectations")
    folder = vendors / name
    folder.mkdir(parents=True)
    values = {"title": name.replace("_", " ").title(), "kind": name.replace("_", "-")}
    for path, text in _FILES.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(text).substitute(values), encoding="utf-8")
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lily_connectors.scaffold", description=__doc__)
    parser.add_argument("name")
    try:
        folder = scaffold(parser.parse_args().name, Path(__file__).parent / "vendors")
    except (ValueError, FileExistsError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{folder}: edit, then `make test-unit`\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
