"""From a tag's POST to the first query that comes back masked: Trino and PostgreSQL, tagged directly and by lineage.

A query is sent again and again, one after the other. What counts is when the first masked one was *submitted*, from when
the tag's POST was sent; a later unmasked one fails the gate. Every 25th time the API is killed as soon as it has accepted
the tag, and the time until it is back is in the figure; `api_killed` and `undisturbed` tell those times apart. The tag goes by Kafka alone. First, what an answer to Trino costs
at 500 a second (`answers`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from trino.exceptions import Error as TrinoError

from tests.bench import answers
from tests.bench.machine import Steal
from tests.bench.result import Gate, Row, percentiles, publish, save
from tests.support.databases import with_connect
from tests.support.kept import EMAILS, kept_shop
from tests.support.poll import until
from tests.support.stack import Stack, running_stack
from tests.support.tenant import Tenant, event
from tests.support.trino import trino_shop, with_trino

CASES = (answers.CASE, "trino-direct", "trino-lineage", "postgres-direct", "postgres-lineage")
KILL_EVERY = 25
#: Queries after the first masked one, none of which may show anything.
_AFTER = 5
_SECONDS = 90.0
_MASKED = [None] * len(EMAILS)


@dataclass(frozen=True)
class Point:
    """What is tagged and what is looked at. `look` gives the column's values; it may raise while the engine refuses."""

    case: str
    tag: Callable[[bool], None]
    look: Callable[[], list[Any]]


def measured(stack: Stack, point: Point, count: int) -> Row:
    undisturbed: list[float] = []
    api_killed: list[float] = []
    unmasked = 0
    with Steal() as steal:
        for number in range(1, count + 1):
            until(lambda: point.look() == EMAILS, f"{point.case} to be shown", deadline=_SECONDS)
            started = time.monotonic()
            point.tag(True)
            restarts = stack.kill("api") if number % KILL_EVERY == 0 else None
            submitted = _first_masked(point, started + _SECONDS)
            if submitted is not None:
                (undisturbed if restarts is None else api_killed).append(1000 * (submitted - started))
            if restarts is not None:
                stack.wait_restarted("api", restarts)
            unmasked += sum(_look(point) not in (_MASKED, None) for _ in range(_AFTER))
            point.tag(False)
    times = undisturbed + api_killed
    found = {
        **percentiles(times),
        "undisturbed": percentiles(undisturbed),
        "api_killed": percentiles(api_killed),
        "kills": count // KILL_EVERY,
        "steal": steal.percent,
    }
    return Row(point.case, found, Gate(count, len(times), unmasked + count - len(times), 0))


def _first_masked(point: Point, end: float) -> float | None:
    """When the first query was submitted that came back masked; None when none did in time."""
    while (submitted := time.monotonic()) < end:
        if _look(point) == _MASKED:
            return submitted
    return None


def _look(point: Point) -> list[Any] | None:
    """None when the engine refuses to answer, as it does while it cannot ask: nothing is shown then either."""
    try:
        return point.look()
    except (TrinoError, psycopg.Error):
        return None


def on_trino(stack: Stack) -> Iterator[Point]:
    with trino_shop(stack) as shop:
        shop.put("propagation/rules", "down", classifications=["PII"], along=["column"])
        yield Point(
            "trino-direct",
            lambda on: shop.tag("customers/email", attach=on),
            lambda: shop.emails("customers"),
        )
        _joined(shop.tenant, shop.root)
        yield Point(
            "trino-lineage",
            lambda on: shop.tag("customers/email", attach=on),
            lambda: shop.emails("contacts", "address"),
        )


def on_postgres(stack: Stack) -> Iterator[Point]:
    tenant = stack.new_tenant()
    with kept_shop(stack, tenant) as shop:
        shop.connect()
        answer = tenant.client.put(
            "/v1/propagation/rules/down", json={"classifications": ["PII"], "along": ["column"]}
        )
        assert answer.is_success, answer.text
        yield Point("postgres-direct", lambda on: shop.tag("customers/email", attach=on), shop.seen)
        _joined(tenant, shop.root)
        yield Point(
            "postgres-lineage",
            lambda on: shop.tag("customers/email", attach=on),
            lambda: shop.seen("contacts", "address"),
        )


def _joined(tenant: Tenant, root: str) -> None:
    """The one column is made from the other."""
    edge = {
        "upstream": f"{root}/customers/email",
        "downstream": f"{root}/contacts/address",
        "kind": "column",
    }
    tenant.send(event("lineage.edge.added", edge))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.enforce")
    parser.add_argument("--only", nargs="*", choices=CASES, default=CASES)
    parser.add_argument("--times", type=int, default=100)
    arguments = parser.parse_args()
    rows: list[Row] = []
    partly = set(arguments.only) != set(CASES)
    with running_stack() as stack:
        if answers.CASE in arguments.only:
            rows.append(answers.measured(stack))
        for engine, points in (("postgres", on_postgres), ("trino", on_trino)):
            if not any(case.startswith(engine) for case in arguments.only):
                continue
            if engine == "trino":
                with_trino(with_connect(stack))
            for point in points(stack):
                if point.case in arguments.only:
                    rows.append(measured(stack, point, arguments.times))
                    save("enforce", rows, others=partly)
                    print(f"{point.case}: {rows[-1].ours}", flush=True)
    return publish("enforce", rows, others=partly)


if __name__ == "__main__":
    sys.exit(main())
