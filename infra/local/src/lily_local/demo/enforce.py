"""`lily demo-enforce`: an analyst selects e-mail addresses, someone tags the column, the next query shows none.

On a real Trino over the lake: direct first, then a column that the tag reaches by lineage; both are shown again when the
tag is taken away. The time is that from the tag's POST to the submission of the first query that comes back masked.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.markup import escape

from lily_cli.client import LilyClient
from lily_cli.settings import Settings
from lily_local import tenant
from lily_local.components.registry import DEFAULT
from lily_local.demo.captured import CapturedShop, captured_shop, declare
from lily_local.demo.checks import DemoError, require, until
from lily_local.demo.stack import Phases, running
from lily_local.environment import TRINO_OPERATOR
from lily_local.trino.asking import ask

EXTRA = ("connect", "trino")
_ANALYST, _STEWARD = "ann", TRINO_OPERATOR
_EMAILS = ["ann@example.org", "bo@example.org"]
_MASKED = [None, None]
_SECONDS = 60
Figures = dict[str, Any]


@dataclass(frozen=True)
class _Scene:
    console: Console
    port: int
    client: LilyClient
    shop: CapturedShop

    def column(self, table: str, column: str, user: str = _ANALYST) -> list[Any]:
        statement = f"SELECT {column} FROM lake.{self.shop.schema}.{table}_latest ORDER BY id"
        return [row[0] for row in ask(self.port, user, statement)]

    def show(self, table: str, column: str, shown: list[Any]) -> None:
        values = ", ".join("NULL" if value is None else str(value) for value in shown)
        self.console.print(
            f"    [cyan]{_ANALYST}>[/cyan] SELECT {column} FROM {self.shop.schema}.{table}_latest   "
            f"[bold]{escape(values)}[/bold]",
            soft_wrap=True,
        )

    def send(self, event_type: str, **data: Any) -> None:
        event = {
            "specversion": "1.0",
            "id": uuid4().hex,
            "source": "/demo",
            "type": f"lily.{event_type}",
            "data": data,
        }
        answer = self.client.send_events([event])
        require(answer["accepted"] == 1, f"Lily did not accept {event_type}: {answer}")

    def tag(self, *, attach: bool) -> None:
        kind = "classification.attached" if attach else "classification.detached"
        self.send(kind, qualified_name=f"{self.shop.root}/customers/email", tag="PII")


def run(console: Console, *, keep: bool) -> Figures:
    """The figures. Raises DemoError, UserError or CliError with what went wrong."""
    phases = Phases()
    with ExitStack() as exits:
        stack = exits.enter_context(running(console, phases, keep=keep, extra=EXTRA))
        with phases.timed("start"), console.status("starting the stack, Kafka Connect and Trino"):
            stack.wait_for(*DEFAULT, *EXTRA)
            kept = tenant.ensure(stack.config, stack.secrets)
            client = exits.enter_context(LilyClient(Settings(stack.url, kept.api_key, "", kept.tenant)))
        with phases.timed("capture"), console.status("capturing a shop's tables into the lake"):
            shop = exits.enter_context(captured_shop(stack, client))
        with phases.timed("run"):
            figures = _steps(_Scene(console, stack.config.port("trino"), client, shop), exits)
    if keep:
        console.print("\nThe stack stays up; `lily down` stops it.")
    return {"seconds": {name: round(value, 1) for name, value in phases.with_total().items()}, **figures}


def _steps(scene: _Scene, exits: ExitStack) -> Figures:
    shop, client = scene.shop, scene.client
    declare(
        client,
        "policies",
        shop.name,
        {"tags": ["PII"], "action": "mask", "unless": {"users": [_STEWARD]}},
        exits,
    )
    declare(client, "propagation/rules", shop.name, {"classifications": ["PII"], "along": ["column"]}, exits)
    edge = {"upstream": f"{shop.root}/customers/email", "downstream": f"{shop.root}/newsletter/address"}
    scene.send("lineage.edge.added", kind="column", **edge)
    _wait(scene, "customers", "email", _EMAILS)
    scene.console.print("\n[bold]The analyst sees the addresses[/bold]")
    scene.show("customers", "email", _EMAILS)
    exits.callback(scene.tag, attach=False)  # whatever happens from here on
    direct = _tagged(scene, "customers", "email")
    scene.console.print(
        f"[green]✓[/green] [bold]customers.email was tagged PII; masked in the query sent {direct:.0f} ms later[/bold]"
    )
    scene.show("customers", "email", scene.column("customers", "email"))
    require(scene.column("customers", "email", _STEWARD) == _EMAILS, "the policy spares the steward")
    _untagged(scene, "customers", "email")
    lineage = _tagged(scene, "newsletter", "address")
    scene.console.print(
        "[green]✓[/green] [bold]newsletter.address is made from it, says lineage: tagged too, "
        f"masked in the query sent {lineage:.0f} ms later[/bold]"
    )
    scene.show("newsletter", "address", scene.column("newsletter", "address"))
    _why(scene)
    _untagged(scene, "newsletter", "address")
    return {"masked_ms": {"direct": round(direct), "lineage": round(lineage)}}


def _tagged(scene: _Scene, table: str, column: str) -> float:
    """Tag the customers' column; milliseconds from the POST to the submission of the first masked query here."""
    _wait(scene, table, column, _EMAILS)  # what an earlier tag caused is gone
    started = time.monotonic()
    scene.tag(attach=True)
    while True:
        submitted = time.monotonic()
        shown = scene.column(table, column)
        if shown == _MASKED:
            break
        require(shown == _EMAILS, f"{table}.{column} shows {shown}")
        if submitted - started > _SECONDS:
            raise DemoError(f"{table}.{column} is not masked after {_SECONDS} s")
    require(scene.column(table, column) == _MASKED, "what is masked stays masked")
    return 1000 * (submitted - started)


def _untagged(scene: _Scene, table: str, column: str) -> None:
    scene.tag(attach=False)
    _wait(scene, table, column, _EMAILS)
    scene.console.print("[green]✓[/green] [bold]The tag is taken away: the addresses are back[/bold]")
    scene.show(table, column, _EMAILS)


def _why(scene: _Scene) -> None:
    """Lily's own word on why the column downstream has the tag, as soon as the mirror has it."""
    path = f"/v1/assets/{scene.shop.root}/newsletter/address/tags"

    def told() -> list[str]:
        tags = scene.client.get(path, {"explain": True})["tags"]
        return [origin["because"] for held in tags for origin in held["origins"]]

    for because in until("the derived tag to be readable", told, _SECONDS):
        scene.console.print(f"    why: {escape(because)}", soft_wrap=True)


def _wait(scene: _Scene, table: str, column: str, rows: list[Any]) -> None:
    until(f"{table}.{column} to be {rows}", lambda: scene.column(table, column) == rows, _SECONDS)
