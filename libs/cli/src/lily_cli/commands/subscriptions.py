"""`lily subscriptions`: who is told what, and where."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from lily_cli import views
from lily_cli.app import connect, examples, group, json_option
from lily_cli.client import LilyClient, path_segment
from lily_cli.durations import parse_duration
from lily_cli.errors import CliError, UsageError
from lily_cli.output import Column, JsonFlag, out, print_fields, print_json, print_rows, say

app = group("Subscriptions: create, list, show, pause, resume, test, rotate-secret, replay-dead, delete.")
_TEST_SECONDS = 20.0
_POLL_SECONDS = 0.2
SubscriptionArgument = Annotated[str, typer.Argument(help="Subscription id.")]


@app.command(
    epilog=examples(
        "lily subscriptions create --name pii --url https://example.com/hook --tag PII",
        "lily subscriptions create --name chat --sink slack --url https://hooks.slack.com/services/T/B/X --tag PII",
        "lily subscriptions create --name incidents --url https://example.com/hook --type lily.incident.opened",
    )
)
def create(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Option(help="Name for people.")],
    sink: Annotated[
        str, typer.Option("--sink", "--kind", help="webhook, slack or jira; your Kafka topic is always fed.")
    ] = "webhook",
    url: Annotated[str | None, typer.Option(help="Where to deliver, for webhook and slack.")] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Event type, e.g. lily.classification.attached; repeat."),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Only changes of this tag (types default to attach, detach).")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Only tags that this notify policy is about; '*': any such policy.")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="Only assets whose qualified name begins so.")] = None,
    filters: Annotated[
        str | None,
        typer.Option("--filters", help="CloudEvents filters, a JSON list or @file; added to the others."),
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="More of the sink's configuration, JSON or @file.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a subscription. A webhook's signing secret is printed this once."""
    body: dict[str, Any] = {
        "name": name,
        "sink": {"kind": sink} | ({"url": url} if url else {}) | (json_option(config, "--config") or {}),
        "filters": build_filters(tag, policy, prefix, json_option(filters, "--filters")),
    }
    tags = ["lily.classification.attached", "lily.classification.detached"]
    if chosen := types or (tags if tag or policy else None):
        body["types"] = chosen
    with connect(ctx) as client:
        print_fields(client.post("/v1/subscriptions", body), as_json=as_json)


def build_filters(tag: str | None, policy: str | None, prefix: str | None, more: Any) -> list[dict[str, Any]]:
    """The filters of the options, all of which must hold. Raises UsageError when `more` is no list."""
    if more is not None and not isinstance(more, list):
        raise UsageError("--filters: a JSON list of filters is wanted")
    made: list[dict[str, Any]] = []
    if tag:
        made.append({"exact": {"data.tag": tag}})
    if policy:
        made.append({"policy": policy})
    if prefix:
        made.append({"prefix": {"subject": prefix}})
    return made + (more or [])


@app.command("list", epilog=examples("lily subscriptions list"))
def list_subscriptions(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the tenant's subscriptions."""
    columns: list[Column] = [
        ("ID", "id"),
        ("NAME", "name"),
        ("SINK", "kind"),
        ("TO", lambda row: (row.get("sink") or {}).get("url") or (row.get("sink") or {}).get("topic")),
        ("STATUS", "status"),
    ]
    with connect(ctx) as client:
        print_rows(client.pages("/v1/subscriptions"), columns, as_json=as_json, empty="no subscriptions")


@app.command(epilog=examples("lily subscriptions show sub_0f3a5c7e9b1d2f4a6c8e0b2d"))
def show(ctx: typer.Context, subscription: SubscriptionArgument, as_json: JsonFlag = False) -> None:
    """Show one subscription."""
    with connect(ctx) as client:
        print_fields(client.get(f"/v1/subscriptions/{path_segment(subscription)}"), as_json=as_json)


@app.command(epilog=examples("lily subscriptions pause sub_0f3a5c7e9b1d2f4a6c8e0b2d"))
def pause(ctx: typer.Context, subscription: SubscriptionArgument) -> None:
    """Hold deliveries back; they are kept and sent, in order, when it is resumed."""
    _act(ctx, subscription, "pause")
    say(f"{subscription} is paused")


@app.command(epilog=examples("lily subscriptions resume sub_0f3a5c7e9b1d2f4a6c8e0b2d"))
def resume(ctx: typer.Context, subscription: SubscriptionArgument) -> None:
    """Deliver again, beginning with what was held back."""
    _act(ctx, subscription, "resume")
    say(f"{subscription} is active")


@app.command("test", epilog=examples("lily subscriptions test sub_0f3a5c7e9b1d2f4a6c8e0b2d"))
def send_test(ctx: typer.Context, subscription: SubscriptionArgument, as_json: JsonFlag = False) -> None:
    """Send a test notice to the sink and show what came back; exits with 1 when it did not arrive."""
    with connect(ctx) as client:
        sent = client.post(f"/v1/subscriptions/{path_segment(subscription)}/test")
        delivery = _first_outcome(client, str(sent["delivery_id"]))
    if as_json:
        print_json(delivery)
    else:
        out().print(views.delivery(delivery))
    if delivery["status"] != "delivered":
        raise CliError(f"not delivered: {delivery.get('last_error') or delivery['status']}")


def _first_outcome(client: LilyClient, delivery_id: str) -> dict[str, Any]:
    """The delivery once its first attempt is over, or as it is after a while."""
    deadline = time.monotonic() + _TEST_SECONDS
    while True:
        delivery: dict[str, Any] = client.get(f"/v1/deliveries/{path_segment(delivery_id)}")
        if delivery["attempts"] or delivery["status"] != "pending" or time.monotonic() > deadline:
            return delivery
        time.sleep(_POLL_SECONDS)


@app.command(
    "rotate-secret", epilog=examples("lily subscriptions rotate-secret sub_0f3a5c7e9b1d2f4a --grace 1d")
)
def rotate_secret(
    ctx: typer.Context,
    subscription: SubscriptionArgument,
    grace: Annotated[str, typer.Option(help="How long the old secret signs too, e.g. 1d.")] = "1d",
    as_json: JsonFlag = False,
) -> None:
    """Make a new signing secret; it is printed this once."""
    body = {"grace_seconds": int(parse_duration(grace, "--grace").total_seconds())}
    with connect(ctx) as client:
        answer = client.post(f"/v1/subscriptions/{path_segment(subscription)}/rotate-secret", body)
        print_fields(answer, as_json=as_json)


@app.command("replay-dead", epilog=examples("lily subscriptions replay-dead sub_0f3a5c7e9b1d2f4a6c8e0b2d"))
def replay_dead(ctx: typer.Context, subscription: SubscriptionArgument) -> None:
    """Try all its dead deliveries again, in order per asset."""
    answer = _act(ctx, subscription, "replay-dead")
    say(f"{answer['replayed']} deliveries are tried again")


@app.command(epilog=examples("lily subscriptions delete sub_0f3a5c7e9b1d2f4a6c8e0b2d"))
def delete(ctx: typer.Context, subscription: SubscriptionArgument) -> None:
    """Delete a subscription; what is pending is cancelled."""
    with connect(ctx) as client:
        client.delete(f"/v1/subscriptions/{path_segment(subscription)}")
    say(f"{subscription} is deleted")


def _act(ctx: typer.Context, subscription: str, action: str) -> Any:
    with connect(ctx) as client:
        return client.post(f"/v1/subscriptions/{path_segment(subscription)}/{action}")
