"""The embedded stack as tests and benchmarks use it: one of their own, on free ports, gone when they are.

`LILY_TEST_HOME` names the folder of a stack to use and leave running instead, for a developer's second run;
`LILY_TEST_COMPONENTS` names the components to start where not all are needed, comma-separated.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import httpx
import psutil

from lily_local import config as configuration
from lily_local import control, environment, state
from lily_local.components.registry import select
from lily_local.config import StackConfig
from lily_local.stack import LocalStack
from tests.support.poll import until
from tests.support.stores import Lake, Log, Mirror
from tests.support.tenant import Tenant

HOME_VARIABLE = "LILY_TEST_HOME"
COMPONENTS_VARIABLE = "LILY_TEST_COMPONENTS"
#: Whose logs tell why a test failed.
LOGGED = ("api", "egress", "fanout", "lake", "connect", "supervisor")


class Stack:
    """A running stack, its stores and its tenants."""

    def __init__(self, config: StackConfig, variables: Mapping[str, str]) -> None:
        self.config = config
        self.environment = variables
        self.url = variables["LILY_URL"]
        self.lake = Lake(variables)
        self.log = Log(variables["KAFKA_BOOTSTRAP"])

    @cached_property
    def mirror(self) -> Mirror:
        return Mirror(self.environment)

    def component(self, name: str) -> state.ComponentState:
        return state.read(self.config.state_file).components[name]

    def pid(self, name: str) -> int:
        return self.component(name).pid

    def pids(self) -> dict[str, int]:
        """Component -> pid, of those that run."""
        known = state.read(self.config.state_file).components
        return {name: its.pid for name, its in known.items() if its.pid}

    def kill(self, name: str, *, part: str = "all") -> int:
        """kill -9 the component and all its children (`part` "all"), or its first process only ("main").

        Returns how often it had been restarted before.
        """
        before = self.component(name)
        process = psutil.Process(before.pid)
        for victim in [process, *(process.children(recursive=True) if part == "all" else [])]:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        return before.restarts

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """The component and its children do nothing meanwhile: there, and not answering."""
        first = psutil.Process(self.component(name).pid)
        family = [first, *first.children(recursive=True)]
        for process in family:
            process.suspend()
        try:
            yield
        finally:
            for process in family:
                process.resume()

    def wait_restarted(self, name: str, before: int) -> None:
        """Until the supervisor shows the restart and the component is ready again."""

        def back() -> bool:
            now = self.component(name)
            return now.restarts > before and now.phase == "ready"

        until(back, f"{name} to be restarted", deadline=180)

    def new_tenant(self) -> Tenant:
        """A tenant made by the operator, with a key that may do everything in it."""
        name = f"t-{secrets.token_hex(5)}"
        operator = {"Authorization": f"Bearer {self.environment['LILY_ADMIN_KEY']}"}
        with httpx.Client(base_url=self.url, headers=operator, timeout=30, trust_env=False) as client:
            client.post("/v1/tenants", json={"id": name}).raise_for_status()
            made = client.post(
                "/v1/keys", json={"name": "tests", "scopes": ["admin"]}, headers={"X-Lily-Tenant": name}
            )
            made.raise_for_status()
        return Tenant(name, made.json()["key"], self.url)

    def log_tails(self, lines: int = 15, width: int = 600) -> dict[str, str]:
        """The last lines of the log of each of the product's own processes, long ones cut."""
        tails = {}
        for name in LOGGED:
            path = self.config.log_file(name)
            if path.exists():
                last = path.read_text(errors="replace").splitlines()[-lines:]
                tails[name] = "\n".join(line[:width] for line in last)
        return tails


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def running_stack(*components: str) -> Iterator[Stack]:
    """These components and what they need (all when none is named), ready.

    A stack of its own is stopped and its data deleted at the end.
    """
    named = os.environ.get(COMPONENTS_VARIABLE, "")
    wanted = list(components) or [name for name in named.split(",") if name] or None
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        started = control.start(configuration.load(Path(chosen)), wanted)
        control.wait(started.config, [component.name for component in select(wanted)], lambda _: None)
        yield Stack(started.config, environment.full(started.config, started.secrets))
        return
    with LocalStack(wanted) as own:
        yield Stack(own.config, own.env)
