"""Every module that declares tables, imported so that the metadata is whole. One line per module."""

from __future__ import annotations

from importlib import import_module

from lily_common.db import Base

MODULES = [
    "lily_api.tenants.models",
    "lily_api.keys.models",
    "lily_api.oauth.models",
    "lily_api.audit.models",
    "lily_connectors.models",
    "lily_connectors.egress.models",
    "lily_api.commands.models",
    "lily_api.tables.models",
    "lily_api.capture.models",
    "lily_api.enforcement.databases.models",
    "lily_api.erasures.models",
    "lily_api.declarations.models",
]

for _module in MODULES:
    import_module(_module)

METADATA = Base.metadata
