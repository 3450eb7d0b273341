"""`lily harvest`: read a system's catalogue and send it as events. The reading is the connectors' work."""

from __future__ import annotations

from typing import Annotated, Any

import httpx
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from lily_cli.app import examples, group
from lily_cli.client import unreachable
from lily_cli.errors import CliError, UsageError
from lily_cli.extras import load
from lily_cli.output import err, fail_line, print_json, say
from lily_cli.settings import Settings

app = group("Harvest the catalogue of a system: postgres.")
_PACKAGE = "lily-connectors"
_MODULE = "lily_connectors.vendors.postgres_catalog"


@app.callback()
def harvest() -> None:
    """Harvest the catalogue of a system."""


@app.command(
    epilog=examples(
        "lily harvest postgres postgresql://reader@shop-db:5432/shop",
        "lily harvest postgres postgresql://reader@10.0.0.7/shop --namespace postgres://shop-db:5432 --schema public",
    )
)
def postgres(
    ctx: typer.Context,
    *,
    dsn: Annotated[
        str, typer.Argument(metavar="DSN", help="The database; the password may be in PGPASSWORD.")
    ],
    namespace: Annotated[
        str | None,
        typer.Option(help="What OpenLineage producers call the server; postgres://host:port if not given."),
    ] = None,
    schema: Annotated[list[str] | None, typer.Option(help="Only this schema; repeat for several.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave out this schema; repeat.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Send databases, schemas, tables, views and columns of PostgreSQL. Again adds only what has changed."""
    settings = ctx.find_object(Settings)
    assert settings is not None
    key = _api_key(settings)
    config = _config({"namespace": namespace, "schemas": schema or [], "exclude": exclude or []})
    sent = _harvest(settings.url, key, dsn, config)
    if as_json:
        print_json({"accepted": sent.accepted, "rejected": sent.rejected})
    else:
        say(f"{sent.accepted} accepted, {sent.rejected} rejected")
    for event, reason in sent.problems:
        fail_line(f"{event['data'].get('qualified_name') or event['id']}: {reason}")
    if sent.rejected:
        raise CliError(f"{sent.rejected} events were rejected")


def _api_key(settings: Settings) -> str:
    headers = settings.headers()
    if "X-Lily-Tenant" in headers:
        raise UsageError("a harvest needs a key of the tenant: pass --api-key or set LILY_API_KEY")
    return headers["Authorization"].removeprefix("Bearer ")


def _config(fields: dict[str, Any]) -> Any:
    model = load(f"{_MODULE}.config", _PACKAGE).Config
    try:
        return model.model_validate(fields)
    except ValueError as invalid:
        raise UsageError(f"--namespace: {invalid}".splitlines()[0]) from None


def _harvest(url: str, key: str, dsn: str, config: Any) -> Any:
    """What was sent (`lily_connectors.sender.Sent`), with a progress bar on stderr."""
    psycopg = load("psycopg", _PACKAGE)
    sender_module = load("lily_connectors.sender", _PACKAGE)
    run = load(f"{_MODULE}.harvest", _PACKAGE).harvest
    columns = (TextColumn("harvesting"), BarColumn(), MofNCompleteColumn())
    try:
        with (
            sender_module.Sender(url, key) as sender,
            Progress(*columns, console=err(), transient=True) as progress,
        ):
            task = progress.add_task("harvest", total=None)
            return run(
                dsn,
                config,
                sender,
                lambda done, total: progress.update(task, completed=done, total=max(done, total)),
            )
    except psycopg.Error as failure:
        reason = " ".join(str(failure).split()) or type(failure).__name__
        raise CliError(f"cannot read {_without_password(dsn)}: {reason}") from None
    except sender_module.RefusedError as refused:
        raise CliError(str(refused)) from None
    except httpx.HTTPError as failure:
        raise unreachable(url, failure) from None


def _without_password(dsn: str) -> str:
    """The DSN fit for a terminal: only a URL's part after the credentials, else nothing of it."""
    return dsn.rpartition("@")[2] if "://" in dsn else "the database"
