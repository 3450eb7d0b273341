"""`lily`: the options that all commands share, and what each name stands for."""

from __future__ import annotations

from typing import Annotated

import typer

from lily_cli import __version__, extras
from lily_cli import settings as settings_module
from lily_cli.app import LilyGroup
from lily_cli.commands import (
    assets,
    commands,
    connectors,
    deliveries,
    enrichment,
    erase,
    events,
    harvest,
    keys,
    mappings,
    policies,
    propagation,
    replay,
    subscriptions,
    tables,
    tag,
    tail,
    tenants,
)

app = typer.Typer(
    name="lily",
    cls=LilyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lily {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    *,
    url: Annotated[str | None, typer.Option(help="The API's base URL (env: LILY_URL).")] = None,
    api_key: Annotated[str | None, typer.Option(help="A key of your tenant (env: LILY_API_KEY).")] = None,
    admin_key: Annotated[str | None, typer.Option(help="The operator's key (env: LILY_ADMIN_KEY).")] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Act for this tenant with the operator's key (env: LILY_TENANT).")
    ] = None,
    version: Annotated[  # noqa: ARG001  (its callback prints it)
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Lily, the metadata-event platform.

    Settings come from these options, then the environment, then the nearest `.lily/env` (written by `lily up`).
    """
    ctx.obj = settings_module.read(url, api_key, admin_key, tenant)


app.add_typer(assets.app, name="assets")
app.add_typer(events.app, name="events")
tag.register(app)
tail.register(app)
replay.register(app)
erase.register(app)
app.add_typer(subscriptions.app, name="subscriptions")
app.add_typer(deliveries.app, name="deliveries")
app.add_typer(connectors.app, name="connectors")
app.add_typer(harvest.app, name="harvest")
app.add_typer(tables.app, name="tables")
app.add_typer(mappings.app, name="mappings")
app.add_typer(policies.app, name="policies")
app.add_typer(enrichment.app, name="enrichment")
app.add_typer(propagation.app, name="propagation")
app.add_typer(commands.app, name="commands")
app.add_typer(erase.app, name="erasures")
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")
_STACK = {
    "up": "Start the embedded stack",
    "down": "Stop the embedded stack",
    "status": "Show the embedded stack",
    "logs": "Show a component's log",
}
extras.mount(app, "lily_local.commands", "lily-local", _STACK)
extras.mount(app, "lily_local.trino.command", "lily-local", {"trino": "The embedded stack's Trino"})
_DEMOS = {"demo": "Run the main job on real input", "demo-enforce": "A tag, and the next query that obeys it"}
extras.mount(app, "lily_local.demo.command", "lily-local", _DEMOS)

if __name__ == "__main__":
    app()
