"""`lily tenants`: the operator's view of tenants."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lily_cli.app import connect, examples, group
from lily_cli.client import path_segment
from lily_cli.errors import UsageError
from lily_cli.output import JsonFlag, print_fields, print_rows

app = group("Tenants: create, list, show, update (with the operator's key).")
TenantArgument = Annotated[str, typer.Argument(help="Tenant id, e.g. acme.")]
NameOption = Annotated[str | None, typer.Option(help="Name for people.")]
SensitiveOption = Annotated[
    list[str] | None,
    typer.Option("--sensitive", help="Asset field never mirrored to MongoDB; repeat for several."),
]


@app.command(epilog=examples("lily tenants create acme --name 'Acme Ltd'"))
def create(
    ctx: typer.Context,
    *,
    tenant: TenantArgument,
    name: NameOption = None,
    sensitive: SensitiveOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a tenant."""
    body: dict[str, Any] = {"id": tenant} | _changes(name, sensitive)
    with connect(ctx) as client:
        print_fields(client.post("/v1/tenants", body, operator=True), as_json=as_json)


@app.command("list", epilog=examples("lily tenants list", "lily tenants list --json"))
def list_tenants(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List all tenants."""
    with connect(ctx) as client:
        rows = client.pages("/v1/tenants", operator=True)
        columns = [
            ("ID", "id"),
            ("NAME", "name"),
            ("SENSITIVE FIELDS", "sensitive_fields"),
            ("CREATED", "created_at"),
        ]
        print_rows(rows, columns, as_json=as_json, empty="no tenants")


@app.command(epilog=examples("lily tenants show acme"))
def show(ctx: typer.Context, tenant: TenantArgument, as_json: JsonFlag = False) -> None:
    """Show one tenant."""
    with connect(ctx) as client:
        operator = bool(client.settings.admin_key)
        print_fields(client.get(f"/v1/tenants/{path_segment(tenant)}", operator=operator), as_json=as_json)


@app.command(epilog=examples("lily tenants update acme --sensitive sample_values --sensitive sql"))
def update(
    ctx: typer.Context,
    *,
    tenant: TenantArgument,
    name: NameOption = None,
    sensitive: SensitiveOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Change a tenant's name or which fields are sensitive (the list given replaces the old one)."""
    changes = _changes(name, sensitive)
    if not changes:
        raise UsageError("nothing to change: pass --name or --sensitive")
    with connect(ctx) as client:
        operator = bool(client.settings.admin_key)
        print_fields(
            client.patch(f"/v1/tenants/{path_segment(tenant)}", changes, operator=operator), as_json=as_json
        )


def _changes(name: str | None, sensitive: list[str] | None) -> dict[str, Any]:
    given = {"name": name, "sensitive_fields": sensitive or None}
    return {field: value for field, value in given.items() if value is not None}
