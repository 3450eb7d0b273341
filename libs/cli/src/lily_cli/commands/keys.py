"""`lily keys`: API keys of a tenant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from lily_cli.app import connect, examples, group
from lily_cli.client import path_segment
from lily_cli.durations import parse_duration
from lily_cli.output import Column, JsonFlag, Row, print_fields, print_json, print_rows, say

app = group("API keys: create, list, rotate, revoke.")
KeyArgument = Annotated[str, typer.Argument(help="Key id, e.g. key_0f3a…")]
ExpiresOption = Annotated[str | None, typer.Option(help="End after this long, e.g. 90d, 12h.")]


@app.command(
    epilog=examples(
        "lily keys create ci --scope events:write --scope assets:read",
        "lily keys create admin --scope admin --expires 90d",
    )
)
def create(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(help="Name for people.")],
    scope: Annotated[list[str], typer.Option(help="What the key may do; repeat for several.")],
    expires: ExpiresOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a key. It is printed this once and kept nowhere."""
    body: dict[str, Any] = {"name": name, "scopes": scope} | _end(expires)
    with connect(ctx) as client:
        _show_new(client.post("/v1/keys", body), as_json=as_json)


@app.command("list", epilog=examples("lily keys list"))
def list_keys(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the tenant's keys, revoked and expired ones included."""
    columns: list[Column] = [
        ("ID", "id"),
        ("NAME", "name"),
        ("PREFIX", "prefix"),
        ("SCOPES", "scopes"),
        ("STATE", state),
        ("LAST USED", "last_used_at"),
    ]
    with connect(ctx) as client:
        print_rows(client.pages("/v1/keys"), columns, as_json=as_json, empty="no keys")


@app.command(epilog=examples("lily keys rotate key_0f3a5c7e9b1d2f4a6c8e0b2d --grace 1h"))
def rotate(
    ctx: typer.Context,
    *,
    key: KeyArgument,
    grace: Annotated[str, typer.Option(help="How long the old key stays valid, e.g. 1h.")] = "0s",
    expires: ExpiresOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Replace a key by a new one with the same name and scopes."""
    body: dict[str, Any] = {"grace_seconds": int(parse_duration(grace, "--grace").total_seconds())} | _end(
        expires
    )
    with connect(ctx) as client:
        _show_new(client.post(f"/v1/keys/{path_segment(key)}/rotate", body), as_json=as_json)


@app.command(epilog=examples("lily keys revoke key_0f3a5c7e9b1d2f4a6c8e0b2d"))
def revoke(ctx: typer.Context, key: KeyArgument) -> None:
    """End a key at once."""
    with connect(ctx) as client:
        client.delete(f"/v1/keys/{path_segment(key)}")
    say(f"{key} is revoked")


def state(key: Row, now: datetime | None = None) -> str:
    """What a key is good for: `active`, `expires …`, `expired` or `revoked`."""
    if key.get("revoked_at"):
        return "revoked"
    if not (text := key.get("expires_at")):
        return "active"
    end = datetime.fromisoformat(text)
    return "expired" if end <= (now or datetime.now(UTC)) else f"expires {end:%Y-%m-%d %H:%M}"


def _end(expires: str | None) -> dict[str, str]:
    if expires is None:
        return {}
    duration: timedelta = parse_duration(expires, "--expires")
    return {"expires_at": (datetime.now(UTC) + duration).isoformat()}


def _show_new(created: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(created)
        return
    print_fields(
        {name: created.get(name) for name in ("id", "name", "scopes", "expires_at", "key")}, as_json=False
    )
    say("keep the key now: it is not shown again")
