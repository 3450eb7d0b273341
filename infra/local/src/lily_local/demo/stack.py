"""The stack that the demo runs on: the user's own, started when it is not up and then stopped at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console

from lily_local import config as configuration
from lily_local import control, environment, jars
from lily_local.components.registry import DEFAULT, select
from lily_local.config import StackConfig
from lily_local.secrets import Secrets

#: What the main demo's own Spark job needs beside the components.
SPARK_JOB_SETS = ("openlineage", "postgres-jdbc")
_START_SECONDS = 300


@dataclass
class Phases:
    """Seconds of each phase of the run."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started

    def with_total(self) -> dict[str, float]:
        return {**self.seconds, "total": sum(self.seconds.values())}


@dataclass(frozen=True)
class Stack:
    """A stack whose components are at least on their way up."""

    config: StackConfig
    secrets: Secrets
    started_here: bool
    console: Console

    @property
    def url(self) -> str:
        return environment.public(self.config, self.secrets)["LILY_URL"]

    @property
    def postgres_uri(self) -> str:
        return environment.public(self.config, self.secrets)["POSTGRES_URI"]

    def wait_for(self, *names: str) -> None:
        """Until those components are ready (when none is named, all that are started unasked). Raises UserError with the log's end."""
        wanted: Sequence[str] = names or DEFAULT
        control.wait(self.config, wanted, lambda _: None, _START_SECONDS)


@contextmanager
def running(
    console: Console, phases: Phases, *, keep: bool, extra: Sequence[str] = (), sets: Sequence[str] = ()
) -> Iterator[Stack]:
    """The stack with the components `extra`; whoever started it here stops it in the end, unless `keep`.

    `sets` are jars that are needed beside those of the components. Raises UserError.
    """
    config = configuration.load()
    names = [*DEFAULT, *extra]
    with phases.timed("download"):
        jars.ensure_all(dict.fromkeys([*(s for one in select(names) for s in one.jar_sets), *sets]))
    with phases.timed("start"):
        started = control.start(config, names, tied=not keep)
    stack = Stack(started.config, started.secrets, started.supervisor is not None, console)
    try:
        yield stack
    finally:
        if stack.started_here and not keep:
            with phases.timed("stop"), console.status("stopping the stack"):
                control.stop(started.config)
