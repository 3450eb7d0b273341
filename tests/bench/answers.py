"""What Trino's questions cost the API: answers at 500 a second, beside the cheapest answer that it gives at that rate.

Open loop: a question is due at its time whatever the server does, and its latency counts from then. The questions are
those of one query (may it be selected, which columns are masked, which rows are shown), in turn. The peer is `/healthz`:
HTTP and the machine, without a key or a decision. A wrong answer is a lost one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
import uvloop

from tests.bench.machine import Steal
from tests.bench.result import Gate, Row, percentiles
from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import event
from tests.support.wire import Pool, post

CASE = "answers-500"
RATE = 500
SECONDS = 30
#: The connections and the code path are warm after these, in seconds; nothing of them counts.
_WARM_SECONDS = 3
_COLUMNS = 20
#: (request, the answer that is right)
Question = tuple[bytes, bytes]


def measured(stack: Stack) -> Row:
    questions = _questions(stack)
    livez = [(_get(stack.url, "/healthz"), b"")]
    with Steal() as steal:
        times, wrong = uvloop.run(_asked(stack.url, questions, RATE, SECONDS))
        floor, unanswered = uvloop.run(_asked(stack.url, livez, RATE, SECONDS))
    ours, peer = percentiles(times), percentiles(floor)
    sent = RATE * SECONDS
    ours_figures: dict[str, Any] = {**ours, "steal": steal.percent}
    ratio = round(peer["p99"] / ours["p99"], 2)
    return Row(CASE, ours_figures, Gate(sent, sent - wrong - unanswered, wrong + unanswered, 0), peer, ratio)


def _questions(stack: Stack) -> list[Question]:
    """A table of twenty columns, one tagged, asked as Trino asks, once Lily knows the tag."""
    tenant = stack.new_tenant()
    root = "postgres://answers/shop/public/customers"
    table = {"catalogName": "lake", "schemaName": "answers", "tableName": "customers"}
    for kind, name, body in (
        (
            "mappings",
            "answers",
            {"table": "lake.answers.{table}", "asset": root.replace("customers", "{table}")},
        ),
        ("policies", "pii", {"tags": ["PII"], "action": "mask", "unless": {"groups": ["stewards"]}}),
        ("policies", "regional", {"tags": ["Regional"], "action": "filter", "filter": "region = 'eu'"}),
    ):
        assert tenant.client.put(f"/v1/{kind}/{name}", json=body).is_success
    tenant.send(
        event("classification.attached", {"qualified_name": f"{root}/c7", "tag": "PII"}),
        event("classification.attached", {"qualified_name": root, "tag": "Regional"}),
    )
    names = [f"c{number}" for number in range(_COLUMNS)]
    columns = [{"column": {**table, "columnName": name, "columnType": "varchar"}} for name in names]
    select = {"operation": "SelectFromColumns", "resource": {"table": {**table, "columns": names}}}
    masks = {"operation": "GetColumnMask", "filterResources": columns}
    filters = {"operation": "GetRowFilters", "resource": {"table": table}}
    expression = {"expression": "region = 'eu'"}
    wanted = (
        ("allow", select, True),
        ("column-masks", masks, [{"index": 7, "viewExpression": {"expression": "NULL"}}]),
        ("row-filters", filters, [expression]),
    )
    made = []
    for endpoint, action, result in wanted:
        body = {"input": {"context": {"identity": {"user": "ann", "groups": ["analysts"]}}, "action": action}}
        path = f"/v1/opa/trino/{endpoint}?key={quote(tenant.key, safe='')}"

        def right(path: str = path, body: Any = body, result: Any = result) -> bool:
            return bool(tenant.client.post(path, json=body).json().get("result") == result)

        until(right, f"{endpoint} to be answered rightly", deadline=60)
        request = post(
            urlsplit(stack.url).netloc, path, {"Content-Type": "application/json"}, orjson.dumps(body)
        )
        made.append((request, orjson.dumps({"result": result})))
    return made


def _get(url: str, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n\r\n".encode()


async def _asked(url: str, questions: Sequence[Question], rate: int, seconds: int) -> tuple[list[float], int]:
    """Milliseconds of each answer from when its question was due, and how many were wrong or none."""
    pool = Pool(url, 64)
    times: list[float] = []
    wrong = 0

    async def ask(due: float, question: Question, *, counts: bool) -> None:
        nonlocal wrong
        request, right = question
        try:
            status, body = await pool.ask(request)
            good = status == 200 and (not right or orjson.loads(body) == orjson.loads(right))
        except (OSError, TimeoutError):
            good = False
        if counts:
            times.append(1000 * (time.perf_counter() - due))
            wrong += not good

    start = time.perf_counter() + 0.1
    async with asyncio.TaskGroup() as tasks:
        for number in range(rate * (_WARM_SECONDS + seconds)):
            due = start + number / rate
            if (pause := due - time.perf_counter()) > 0:
                await asyncio.sleep(pause)
            counts = number >= rate * _WARM_SECONDS
            tasks.create_task(ask(due, questions[number % len(questions)], counts=counts))
    pool.close()
    return times, wrong
