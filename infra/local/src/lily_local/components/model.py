"""The form of a component, and what its functions are given."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from lily_local import environment, jars
from lily_local.config import StackConfig
from lily_local.java import Java
from lily_local.java import find as find_java
from lily_local.secrets import Secrets


@dataclass(frozen=True)
class Context:
    """One stack, as its components see it."""

    config: StackConfig
    secrets: Secrets

    @cached_property
    def java(self) -> Java:
        return find_java()

    @cached_property
    def environment(self) -> dict[str, str]:
        """What all components are started with."""
        return environment.full(self.config, self.secrets)


def _nothing(_: Context) -> None:
    return None


def _no_environment(_: Context) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Component:
    """One process of the stack.

    `prepare` runs before every start and `ready` again and again after it, both in a thread and both may block
    for a few seconds; `ready` answers False or raises while the component is not up. `one_shot` components are
    done when they exit with 0. `optional` ones are started only when they are named. `ports` are names in `config.OFFSETS`, the first is the one to show.
    """

    name: str
    command: Callable[[Context], list[str]]
    ready: Callable[[Context], bool] | None = None
    prepare: Callable[[Context], None] = _nothing
    env: Callable[[Context], dict[str, str]] = _no_environment
    needs: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    jar_sets: tuple[str, ...] = ()
    needs_java: bool = False
    module: str | None = None
    one_shot: bool = False
    optional: bool = False
    stop_signal: signal.Signals = field(default=signal.SIGTERM)
    start_timeout: float = 120.0
    stop_timeout: float = 15.0

    def environment(self, context: Context) -> dict[str, str]:
        """The Lily variables this component is started with."""
        values = {**context.environment, **self.env(context)}
        if self.needs_java:
            values["JAVA_HOME"] = str(context.java.home)
        if "spark" in self.jar_sets:
            values["LILY_SPARK_JARS"] = jars.paths("spark")
        return values
