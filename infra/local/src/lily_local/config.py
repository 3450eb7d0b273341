"""Where a stack lives and which ports it takes: flags, then environment, then what the folder remembers.

All ports are one block of 32 that starts at the base, so that one number moves the whole stack.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lily_local.errors import UserError
from lily_local.files import write_atomic

DEFAULT_BASE = 7700
BLOCK = 32
_HIGHEST_BASE = 65535 - BLOCK

# Offsets never change meaning: a user's bookmarks and scripts hold the sums.
OFFSETS: dict[str, int] = {
    "api": 0,
    "kafka": 1,
    "kafka-controller": 2,
    "mongo": 3,
    "postgres": 4,
    "s3": 5,
    "s3-master": 6,
    "s3-volume": 7,
    "s3-filer": 8,
    "s3-grpc": 9,
    "s3-master-grpc": 10,
    "s3-volume-grpc": 11,
    "s3-filer-grpc": 12,
    "api-metrics": 13,
    "fanout-metrics": 14,
    "lake-metrics": 15,
    "egress-metrics": 16,
    "connect": 17,
    "trino": 18,
}


@dataclass(frozen=True)
class StackConfig:
    """One stack: its folder, its ports by name (see OFFSETS), and the components wanted."""

    home: Path
    base: int = DEFAULT_BASE
    overrides: Mapping[str, int] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    generation: int = 0

    def port(self, name: str) -> int:
        return self.overrides.get(name, self.base + OFFSETS[name])

    @property
    def ports(self) -> dict[str, int]:
        return {name: self.port(name) for name in OFFSETS}

    def data(self, name: str) -> Path:
        """Folder of one server's data."""
        return self.home / "data" / name

    @property
    def run(self) -> Path:
        """Folder of generated configuration."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    def log_file(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    @property
    def connect_secrets(self) -> Path:
        """Folder where the API puts the passwords that Kafka Connect reads."""
        return self.data("connect-secrets")

    @property
    def state_file(self) -> Path:
        return self.home / "state.json"

    @property
    def file(self) -> Path:
        return self.home / "stack.json"

    def with_components(self, names: Sequence[str]) -> StackConfig:
        """The same stack wanting these; the new generation tells whether the supervisor has seen it."""
        return replace(self, components=tuple(dict.fromkeys(names)), generation=self.generation + 1)

    def save(self) -> None:
        """Remember ports and components, so that later commands need only the folder."""
        self.home.mkdir(parents=True, exist_ok=True)
        document = {
            "base": self.base,
            "overrides": dict(self.overrides),
            "components": list(self.components),
            "generation": self.generation,
        }
        write_atomic(self.file, json.dumps(document, indent=1))


def home_folder(given: Path | None = None) -> Path:
    """The flag, else `$LILY_HOME`, else `.lily` here; always absolute."""
    return (given or Path(os.environ.get("LILY_HOME") or ".lily")).expanduser().absolute()


def load(
    home: Path | None = None, base: int | None = None, overrides: Mapping[str, int] | None = None
) -> StackConfig:
    """The stack in `home` with what flags and environment say over it; raises UserError on a bad port."""
    kept = remembered(home_folder(home))
    from_environment = _ports_from_environment()
    chosen_base = base if base is not None else _number("LILY_PORT_BASE")
    if chosen_base is None:
        chosen_base, singled_out = kept.base, dict(kept.overrides)
    else:
        singled_out = {}  # a new base moves everything; ports singled out beside the old one mean nothing now
    changes = {**singled_out, **from_environment, **(overrides or {})}
    config = replace(kept, base=chosen_base, overrides=changes)
    _check(config)
    return config


def parse_port(text: str) -> tuple[str, int]:
    """`kafka=9092` -> ("kafka", 9092); raises UserError otherwise."""
    name, _, number = text.partition("=")
    if name not in OFFSETS:
        raise UserError(f"unknown port name {name!r}; there are {', '.join(OFFSETS)}")
    if not number.isdigit():
        raise UserError(f"--port {text}: write it as {name}=NUMBER")
    return name, int(number)


def remembered(home: Path) -> StackConfig:
    """What the folder's stack.json says; the defaults when there is none."""
    path = home / "stack.json"
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return StackConfig(home)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); move it away and start again") from error
    components = tuple(document["components"])
    return StackConfig(home, document["base"], document["overrides"], components, document["generation"])


def _ports_from_environment() -> dict[str, int]:
    names = {name: f"LILY_PORT_{name.upper().replace('-', '_')}" for name in OFFSETS}
    numbers = {name: _number(variable) for name, variable in names.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def _number(variable: str) -> int | None:
    text = os.environ.get(variable)
    if not text:
        return None
    if not text.isdigit():
        raise UserError(f"{variable}={text!r} is not a port number")
    return int(text)


def _check(config: StackConfig) -> None:
    if not 1024 <= config.base <= _HIGHEST_BASE:
        raise UserError(f"port base {config.base}: choose one from 1024 to {_HIGHEST_BASE}")
    holder: dict[int, str] = {}
    for name, port in config.ports.items():
        if not 1 <= port <= 65535:
            raise UserError(f"port {port} for {name}: choose one from 1 to 65535")
        if port in holder:
            raise UserError(f"port {port} is given to both {holder[port]} and {name}")
        holder[port] = name
