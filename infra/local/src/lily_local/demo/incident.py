"""Step 3: Monte Carlo reports an incident, signed as it signs; it hangs on the right table."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import urllib.parse
import uuid
from dataclasses import dataclass
from typing import Any

import httpx

from lily_cli.client import LilyClient, path_segment
from lily_local.demo.checks import require, until
from lily_local.demo.shop import DATABASE, Shop

SECONDS = 20


@dataclass(frozen=True)
class Incident:
    """What step 3 proved."""

    table: str
    title: str
    incident_id: str
    readable_ms: float


def check(client: LilyClient, shop: Shop) -> Incident:
    """Create the connector, be refused with a wrong signature, be taken with the right one, read the incident."""
    connector = client.post(
        "/v1/connectors",
        {"kind": "montecarlo", "name": "Monte Carlo", "config": {"namespace": shop.namespace}},
    )
    payload = _payload()
    with httpx.Client(timeout=10, trust_env=False) as vendor:
        forged = vendor.post(connector["webhook_url"], **_signed(payload, "not the secret"))
        require(
            forged.status_code == 401, f"a forged signature was answered with {forged.status_code}, not 401"
        )
        sent = time.monotonic()
        answer = vendor.post(connector["webhook_url"], **_signed(payload, connector["secret"]))
    require(
        answer.status_code == 200, f"Monte Carlo's call was answered with {answer.status_code}: {answer.text}"
    )
    table = shop.qualified_name("public", "orders")
    incident_id = payload["payload"]["incident_id"]
    found = until(f"the incident on {table}", lambda: _incident(client, table, incident_id), SECONDS, 0.02)
    readable = (time.monotonic() - sent) * 1000
    require(found["title"] == _TITLE, f"the incident's title is '{found['title']}', not '{_TITLE}'")
    elsewhere = shop.qualified_name("public", "customers")
    require(not _incident(client, elsewhere, incident_id), f"the incident hangs on {elsewhere} too")
    return Incident(table, found["title"], incident_id, readable)


_TITLE = "Has 42 rows vs. 10,000 expected"


def _payload() -> dict[str, Any]:
    """An alert of Monte Carlo's on the table `orders`, in the form of its webhook documentation."""
    incident_id = str(uuid.uuid4())
    return {
        "version": "v0.1",
        "type": "open_anomaly_incident",
        "action": "incident",
        "account": {"id": str(uuid.uuid4())},
        "payload": {
            "incident_id": incident_id,
            "group_id": f"{DATABASE}:public",
            "event_list": [{"table_name": "orders", "event_details": _TITLE}],
            "url": f"https://getmontecarlo.com/incidents/{incident_id}",
        },
    }


def _signed(payload: dict[str, Any], secret: str) -> dict[str, Any]:
    """Arguments of the POST: as Monte Carlo documents it, the HMAC-SHA512 of `urlencode` of the payload."""
    text = urllib.parse.urlencode(payload)
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha512).hexdigest()
    headers = {"Content-Type": "application/json", "x-mcd-signature": signature}
    return {"content": json.dumps(payload).encode(), "headers": headers}


def _incident(client: LilyClient, table: str, incident_id: str) -> dict[str, Any] | None:
    found = client.get(f"/v1/assets/{path_segment(table)}/incidents")
    return next((item for item in found["items"] if item["incident_id"] == incident_id), None)
