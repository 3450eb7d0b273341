"""Declarations as YAML text. Only `true` and `false` are truth values, as YAML 1.2 has it: `on:` is a name."""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_BYTES = 256 * 1024


class _Loader(yaml.SafeLoader):
    """Without the truth values of YAML 1.1, and without aliases, which can make a small text huge."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", None)
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, form)
        for tag, form in resolvers
        if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


def load(text: str | bytes) -> Any:
    """The value of one document. Raises ValueError saying where it is broken."""
    if len(text) > MAX_BYTES:
        raise ValueError(f"a declaration has at most {MAX_BYTES // 1024} kB")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as broken:
        raise ValueError(f"not YAML: {' '.join(str(broken).split())[:300]}") from None
