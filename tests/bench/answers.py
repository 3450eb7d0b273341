"""What Trino's questions cost the API: answers at 500 a second, beside the cheapest answer that it gives at that rate.

Open loop: a question is due at its time whatever the server does, and its latency counts from then. The questions are
those of one query (may it be selected, which columns are masked, which rows are shown), in turn. The peer is `/healthz`:
HTTP and the machine, without a key or a decision. Both are asked in turn for a few seconds each, so that the same
heartbeats and the same neighbours are in either. A wrong answer is a lost one. `server_p99` is the API's own count of its
time from a question read to its answer sent, as an upper bound in milliseconds (`lily_http_request_seconds`).
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import orjson
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from tests.bench.machine import Steal
from tests.bench.result import Gate, Row, percentiles
from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import event
from tests.support.wire import Pool, post

CASE = "answers-500"
RATE = 500
#: Of each, in turns of so many.
SECONDS = 30
_TURN_SECONDS = 5
#: The connections and the code path are warm after these, in seconds; nothing of them counts.
_WARM_SECONDS = 1
_COLUMNS = 20
_SECONDS_METRIC = "lily_http_request_seconds"
_ROUTES = "/v1/opa/trino/"
#: (request, the answer that is right)
Question = tuple[bytes, bytes]


def measured(stack: Stack) -> Row:
    kinds = (_questions(stack), [(_get(stack.url, "/healthz"), b"")])
    before = _answered_within(stack)
    times: tuple[list[float], list[float]] = ([], [])
    wrong = 0
    # The client's own pauses are not the server's.
    gc.freeze()
    gc.disable()
    with Steal() as steal:
        for _ in range(SECONDS // _TURN_SECONDS):
            for asked, found in zip(kinds, times, strict=True):
                taken, bad = uvloop.run(_asked(stack.url, asked, RATE, _TURN_SECONDS))
                found += taken
                wrong += bad
    gc.enable()
    gc.unfreeze()
    ours, peer = percentiles(times[0]), percentiles(times[1])
    sent = len(times[0]) + len(times[1])
    server = {"server_p99": _bound(before, _answered_within(stack), 0.99)}
    beside: dict[str, Any] = {"steal_percent": steal.percent, "noisy": steal.noisy}
    ratio = round(peer["p99"] / ours["p99"], 2)
    return Row(CASE, {**ours, **server, **beside}, Gate(sent, sent - wrong, wrong, 0), peer, ratio)


def _answered_within(stack: Stack) -> Counter[float]:
    """Upper bound in milliseconds -> how many questions the API has answered within it so far."""
    found: Counter[float] = Counter()
    text = httpx.get(f"{stack.url}/metrics", trust_env=False).raise_for_status().text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"{_SECONDS_METRIC}_bucket" and sample.labels["route"].startswith(_ROUTES):
                found[1000 * float(sample.labels["le"])] += int(sample.value)
    return found


def _bound(before: Counter[float], after: Counter[float], share: float) -> float | None:
    """The least bound that this share of the answers in between kept; None without an answer."""
    more = {bound: after[bound] - before[bound] for bound in sorted(after)}
    total = max(more.values(), default=0)
    return next((bound for bound, count in more.items() if total and count >= share * total), None)


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
