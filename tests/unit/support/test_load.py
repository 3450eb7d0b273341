"""The load generator and the receiver against each other and against a server that fails on purpose."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import httpx
from pytest_httpserver import HTTPServer
from standardwebhooks.webhooks import Webhook
from tests.support.journal import Request, lines, read_plan, replay, write_plan
from tests.support.ledger import Ledger
from tests.support.load import LoadProcess
from tests.support.receiver import ReceiverProcess
from tests.unit.support.test_ledger import TENANT, tag
from werkzeug import Response

SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSByZWNlaXZlcg=="


def plan(path: Path, count: int, chain: str | None = None) -> list[Request]:
    write_plan(path, [Request(number / 200, TENANT, [tag(number)], chain) for number in range(count)])
    return read_plan(path)


def test_retries_the_same_bytes_until_they_are_accepted(httpserver: HTTPServer, tmp_path: Path) -> None:
    for status in (503, 500, 429):
        httpserver.expect_ordered_request("/v1/events").respond_with_response(Response(status=status))
    for _ in range(3):
        httpserver.expect_ordered_request("/v1/events").respond_with_json(
            {"items": [{"status": "accepted"}]}, status=202
        )
    requests = plan(tmp_path / "plan", 3, chain="one")
    load = LoadProcess(httpserver.url_for(""), tmp_path / "plan", tmp_path / "journal", {TENANT: "key"})
    with load:
        load.wait(20)
    httpserver.check()
    bodies = [request.get_json()["id"] for request, _ in httpserver.log]
    assert bodies == ["e0"] * 4 + ["e1", "e2"]
    ledger = Ledger()
    replay(ledger, requests, load.journal)
    assert len(ledger.promises) == 3
    assert not ledger.pending
    assert [line["attempts"] for line in lines(load.journal) if "acked" in line] == [4, 1, 1]


def test_items_of_a_batch_that_were_not_accepted_go_again(httpserver: HTTPServer, tmp_path: Path) -> None:
    answers = [["accepted", "unavailable"], ["duplicate", "accepted"]]
    for statuses in answers:
        items = [{"status": status} for status in statuses]
        httpserver.expect_ordered_request("/v1/events").respond_with_json({"items": items}, status=207)
    write_plan(tmp_path / "plan", [Request(0, TENANT, [tag(1), tag(2)])])
    load = LoadProcess(httpserver.url_for(""), tmp_path / "plan", tmp_path / "journal", {TENANT: "key"})
    with load:
        load.wait(20)
    assert [line["n"] for line in lines(load.journal) if "acked" in line] == [[0], [1]]


def test_receiver_judges_signatures_and_fails_on_demand(tmp_path: Path) -> None:
    event = {**tag(1), "tenantid": TENANT}
    with ReceiverProcess(tmp_path / "arrivals") as receiver, httpx.Client(trust_env=False) as client:
        receiver.tell("hook", secret=SECRET, fail=1, status=503)
        request = client.build_request("POST", receiver.url("hook"), json=event)
        body = request.read()
        now = datetime.now(UTC)
        signature = Webhook(SECRET).sign("msg_1", now, body.decode())
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signature,
        }
        assert client.post(receiver.url("hook"), content=body, headers=headers).status_code == 503
        assert client.post(receiver.url("hook"), content=body, headers=headers).status_code == 204
        headers["webhook-signature"] = "v1,AAAA"
        assert client.post(receiver.url("hook"), content=body, headers=headers).status_code == 204
        arrivals = receiver.arrivals("hook")
    assert [arrival.valid for arrival in arrivals] == [True, True, False]
    receipt = arrivals[0].receipt()
    assert (receipt.delivery_id, receipt.identity) == ("msg_1", (TENANT, "//test", "e1"))
