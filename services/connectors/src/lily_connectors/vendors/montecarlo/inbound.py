"""Monte Carlo's webhook: `x-mcd-signature`, alerts opened, updated and resolved.

Its payload (version v0.1) says what happened by what it carries, not by a type of its own: `action` is `incident`,
`type` names the kind of alert (`open_anomaly_incident`, …), and an update adds `alert_feedback`,
`declared_alert_severity` or `owner`. Those are read at the top level and inside `payload`.
Sources: docs.getmontecarlo.com/docs/webhooks (signature, update fields).
"""

from __future__ import annotations

import hashlib
import hmac
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from lily_common import events as ev
from lily_common.errors import MalformedError, UnauthenticatedError
from lily_connectors.inbound import Event, Handler, InboundRequest, parse_json, token_secret, wrong
from lily_connectors.openlineage.names import to_qualified_name
from lily_connectors.vendors.montecarlo.config import Config

SIGNATURE: Final = "x-mcd-signature"
SECRET_HEADERS: Final = frozenset({SIGNATURE})
#: Feedback that ends an alert; any other leaves it open.
RESOLVING: Final = frozenset({"fixed", "expected", "no_action_needed", "false_positive"})

new_secret = token_secret


def signature(secret: str, body: bytes) -> list[str]:
    """What the header may hold for this body, as hexadecimal HMAC-SHA512.

    The documented check signs not the bytes but `urllib.parse.urlencode` of the parsed JSON object; a signature over
    the bytes themselves, as other tools make it, is good as well.
    """
    signed = [body]
    try:
        parsed = parse_json(body)
        if isinstance(parsed, dict):
            signed.append(urllib.parse.urlencode(parsed).encode("utf-8"))
    except (MalformedError, RecursionError, UnicodeEncodeError, ValueError):
        pass  # not the documented form; the bytes may still be signed
    return [hmac.new(secret.encode(), message, hashlib.sha512).hexdigest() for message in signed]


def verify(request: InboundRequest, secrets: Sequence[str]) -> None:
    """Raises UnauthenticatedError (401) unless one of the secrets signed the body. Compares in constant time."""
    given = request.headers.get(SIGNATURE, "").strip().lower()
    if not given:
        raise UnauthenticatedError(f"the header {SIGNATURE} is missing", code="signature-missing")
    good = False
    for secret in secrets:
        for expected in signature(secret, request.body):
            good |= hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))
    if not good:
        raise UnauthenticatedError(f"the signature in {SIGNATURE} is not ours", code="signature-invalid")


def _field(payload: Any, name: str) -> Any:
    """A field of the update, wherever it is put."""
    if isinstance(payload, dict):
        inner = payload.get("payload")
        if isinstance(inner, dict) and name in inner:
            return inner[name]
        return payload.get(name)
    return None


def _has(payload: dict[str, Any], name: str) -> bool:
    inner = payload.get("payload")
    return name in payload or (isinstance(inner, dict) and name in inner)


def event_type(payload: Any, _request: InboundRequest) -> str:
    """`incident.opened|updated|resolved`, `test`, or the unsupported `action` as it came."""
    if not isinstance(payload, dict):
        raise wrong("", "the body must be a JSON object")
    action, kind = payload.get("action"), payload.get("type")
    if action in ("test", "ping") or kind in ("test", "test_notification", "ping"):
        return "test"
    if action != "incident":
        return str(action)
    feedback = _field(payload, "alert_feedback")
    if feedback in RESOLVING:
        return "incident.resolved"
    unmarked = _has(payload, "declared_alert_severity") and not _has(payload, "alert_feedback")
    changed = (_field(payload, name) for name in ("alert_feedback", "declared_alert_severity", "owner"))
    return "incident.updated" if unmarked or any(changed) else "incident.opened"


def _tables(payload: dict[str, Any], config: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """(qualified name, its event) of each table that the alert is about, each table once."""
    inner = payload["payload"]
    seen: set[str] = set()
    listed = inner.get("event_list")
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict):
            continue
        for project, dataset, table, warehouse in _locations(item, inner):
            qualified_name = _qualified_name(config, project, dataset, table, warehouse)
            if qualified_name not in seen:
                seen.add(qualified_name)
                yield qualified_name, item


def _locations(item: dict[str, Any], inner: dict[str, Any]) -> Iterator[tuple[str, str, str, str | None]]:
    """(project, dataset, table, warehouse) of one event: its table in the alert's group, else its rule's tables."""
    table = item.get("table_name")
    full = item.get("full_table_id")
    if isinstance(full, str) and full:
        yield (*_full_table_id(full), _text(item.get("warehouse_uuid")))
    elif isinstance(table, str) and table:
        if ":" in table:
            yield (*_full_table_id(table), None)
        else:
            project, _, dataset = str(inner.get("group_id") or "").partition(":")
            yield project, dataset, table, None
    else:
        for rule in (item.get("rule"), inner.get("rule")):
            comparisons = rule.get("comparisons") if isinstance(rule, dict) else None
            for comparison in comparisons if isinstance(comparisons, list) else []:
                full = comparison.get("full_table_id") if isinstance(comparison, dict) else None
                if isinstance(full, str) and full:
                    yield (*_full_table_id(full), _text(comparison.get("warehouse_uuid")))


def _full_table_id(text: str) -> tuple[str, str, str]:
    """(project, dataset, table) of `project:dataset.table`."""
    project, colon, rest = text.partition(":")
    if not colon:
        project, rest = "", text
    dataset, dot, table = rest.partition(".")
    return (project, dataset, table) if dot else (project, "", rest)


def _qualified_name(config: Config, project: str, dataset: str, table: str, warehouse: str | None) -> str:
    name = config.name_template.format(project=project, dataset=dataset, table=table).lstrip(".")
    if config.letter_case != "keep":
        name = name.lower() if config.letter_case == "lower" else name.upper()
    return to_qualified_name(config.warehouses.get(warehouse or "", config.namespace), name)


def _unlocated(payload: dict[str, Any], incident_id: str) -> str:
    """Where an incident hangs that names no table: on its rule, else on itself. It is never dropped."""
    account = payload.get("account")
    owner = _text(account.get("id") if isinstance(account, dict) else None) or "account"
    rules = [payload["payload"].get("rule")]
    listed = payload["payload"].get("event_list")
    rules += (
        [item.get("rule") for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    )
    for rule in rules:
        uuid = _text(rule.get("uuid")) if isinstance(rule, dict) else None
        if uuid:
            return to_qualified_name(f"montecarlo://{owner}", f"rules/{uuid}")
    return to_qualified_name(f"montecarlo://{owner}", f"incidents/{incident_id}")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _title(payload: dict[str, Any], item: dict[str, Any]) -> str:
    rule = item.get("rule") or payload["payload"].get("rule")
    described = rule.get("description") if isinstance(rule, dict) else None
    for text in (payload["payload"].get("title"), item.get("event_details"), described):
        if isinstance(text, str) and text:
            return text[:500]
    return str(payload.get("type") or "Monte Carlo alert").removeprefix("open_").replace("_", " ")[:500]


def _incidents(kind: str, payload: dict[str, Any], request: InboundRequest) -> list[Event]:
    inner = payload.get("payload")
    if not isinstance(inner, dict):
        raise wrong("payload", "is required: a JSON object")
    incident_id = _text(inner.get("incident_id"))
    if incident_id is None:
        raise wrong("payload.incident_id", "is required: a string")
    if not isinstance(request.config, Config):
        raise TypeError("the connector's configuration is of another kind")
    located = list(_tables(payload, request.config)) or [(_unlocated(payload, incident_id), _first(inner))]
    feedback = _text(_field(payload, "alert_feedback"))
    shared = {
        "incident_id": incident_id,
        "severity": _text(_field(payload, "declared_alert_severity")),
        # An update of something else says nothing of the status, least of all that it is open again.
        "status": feedback or ("open" if kind == ev.INCIDENT_OPENED else None),
        "url": _text(inner.get("url")),
        "owner": _text(_field(payload, "owner")),
        "alert_type": _text(payload.get("type")),
        "vendor": "montecarlo",
    }
    digest = request.body_hash()[:40]
    return [
        {
            "specversion": "1.0",
            "id": f"{digest}.{index}",
            "source": request.source,
            "type": kind,
            "data": {
                "qualified_name": qualified_name,
                "title": _title(payload, item),
                **{name: value for name, value in shared.items() if value is not None},
            },
        }
        for index, (qualified_name, item) in enumerate(located)
    ]


def _first(inner: dict[str, Any]) -> dict[str, Any]:
    listed = inner.get("event_list")
    first = listed[0] if isinstance(listed, list) and listed else {}
    return first if isinstance(first, dict) else {}


def opened(payload: Any, request: InboundRequest) -> list[Event]:
    return _incidents(ev.INCIDENT_OPENED, payload, request)


def updated(payload: Any, request: InboundRequest) -> list[Event]:
    return _incidents(ev.INCIDENT_UPDATED, payload, request)


def resolved(payload: Any, request: InboundRequest) -> list[Event]:
    return _incidents(ev.INCIDENT_RESOLVED, payload, request)


def ping(_payload: Any, _request: InboundRequest) -> list[Event]:
    """A test of the connection changes nothing."""
    return []


HANDLERS: dict[str, Handler] = {
    "incident.opened": opened,
    "incident.updated": updated,
    "incident.resolved": resolved,
    "test": ping,
}
