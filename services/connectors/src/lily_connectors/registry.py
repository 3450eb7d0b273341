"""The connector kinds, found by folder: `vendors/<name>/config.py` is all it takes to be one.

A kind is named after its folder with hyphens. `inbound.py` makes it an inbound kind (webhook), `harvest.py` an
inbound kind that pulls, `capture.py` one whose data Kafka Connect reads, `enforce.py`
one in which Lily enforces policies, `outbound.py` an outbound one. Title and summary are the README's heading and first paragraph.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal, cast

from lily_common.errors import FieldError, InvalidInputError
from lily_connectors import vendors
from lily_connectors.config import ConnectorConfig
from lily_connectors.debezium.settings import CaptureModule
from lily_connectors.inbound import InboundModule

Direction = Literal["inbound", "outbound", "both"]


@dataclass(frozen=True)
class Kind:
    """One connector kind. `package` is its folder as a Python package; modules are imported when first asked for."""

    name: str
    package: str
    title: str
    summary: str
    config: type[ConnectorConfig]
    has_inbound: bool
    has_harvest: bool
    has_capture: bool
    has_enforcing: bool
    has_outbound: bool

    @property
    def direction(self) -> Direction:
        inbound = self.has_inbound or self.has_harvest or self.has_capture
        return "both" if inbound and self.has_outbound else "inbound" if inbound else "outbound"

    @property
    def webhook(self) -> bool:
        """Whether the vendor calls Lily at /webhooks/{connector_id}."""
        return self.has_inbound

    @property
    def inbound(self) -> InboundModule:
        return cast(InboundModule, self._module("inbound"))

    @property
    def capture(self) -> CaptureModule:
        return cast(CaptureModule, self._module("capture"))

    @property
    def outbound(self) -> ModuleType:
        return self._module("outbound")

    def event_types(self) -> list[str]:
        """What the vendor may send, for kinds with a webhook."""
        return sorted(self.inbound.HANDLERS) if self.has_inbound else []

    def new_secret(self) -> str | None:
        """A secret in the vendor's form, or None when this kind has none made up for it."""
        if not (self.has_inbound and self.config.makes_secret):
            return None
        return str(self._module("inbound").new_secret())

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the configuration."""
        return self.config.model_json_schema()

    def _module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.{name}")


def _heading(text: str) -> tuple[str, str]:
    """(title, first paragraph) of a README."""
    blocks = [block.strip() for block in text.split("\n\n") if block.strip()]
    title = blocks[0].lstrip("# ").splitlines()[0] if blocks else ""
    summary = " ".join(blocks[1].split()) if len(blocks) > 1 else ""
    return title, summary


@lru_cache(maxsize=1)
def kinds() -> dict[str, Kind]:
    """Every kind by name."""
    found: dict[str, Kind] = {}
    for module in sorted(pkgutil.iter_modules(vendors.__path__), key=lambda item: item.name):
        package = f"{vendors.__name__}.{module.name}"
        if not module.ispkg or find_spec(f"{package}.config") is None:
            continue
        readme = files(package) / "README.md"
        title, summary = _heading(readme.read_text(encoding="utf-8") if readme.is_file() else "")
        name = module.name.replace("_", "-")
        found[name] = Kind(
            name=name,
            package=package,
            title=title or name,
            summary=summary,
            config=importlib.import_module(f"{package}.config").Config,
            has_inbound=find_spec(f"{package}.inbound") is not None,
            has_harvest=find_spec(f"{package}.harvest") is not None,
            has_capture=find_spec(f"{package}.capture") is not None,
            has_enforcing=find_spec(f"{package}.enforce") is not None,
            has_outbound=find_spec(f"{package}.outbound") is not None,
        )
    return found


def kind(name: str) -> Kind:
    """The kind of that name. Raises InvalidInputError (422) naming those there are."""
    found = kinds().get(name)
    if found is None:
        error = FieldError("kind", f"unknown connector kind; expected one of: {', '.join(kinds())}")
        raise InvalidInputError(error.message, [error])
    return found
