"""The CloudEvents envelope at the moment of acceptance: checked, stamped, given its lane, version and key.

`accept` is the only way an event gets onto `lily.changes.*`. It is pure: the clock is an argument.
Envelope attributes follow CloudEvents 1.0 (spec section 2.4): extension names are lower-case alphanumerics.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

import orjson
from msgspec import Struct
from pydantic import ValidationError

from lily_common.errors import FieldError, InvalidInputError
from lily_common.events import BULK_TOPIC, EVENT_TYPES, PRIORITY_TOPIC, AssetPatched, AssetUpserted, Payload
from lily_common.names import BULK_ASSET_TYPES, message_key

MAX_AHEAD = timedelta(minutes=5)
MAX_EVENT_BYTES = 900_000  # below the broker's default message limit of 1 MiB, envelope included
Lane = Literal["priority", "bulk"]

_EXTENSION = re.compile(r"^[a-z0-9]{1,40}$")
#: Attributes that Lily sets; a client's own value is ignored.
_RESERVED = frozenset(
    {
        "tenantid",
        "lane",
        "partitionkey",
        "acceptedtime",
        "stateversion",
        "originaltime",
        "requestid",
        "acceptedby",
        "replayid",
        "datacontenttype",
        "transition",
        "tagpolicies",
        "explainurl",
    }
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEQUENCE = re.compile(r"^[0-9]{1,20}$", re.ASCII)


class AcceptedEvent(Struct, frozen=True, gc=False):
    """An event ready for Kafka. `value` is the structured-mode CloudEvent, `key` decides its partition.

    It is what `lily_common.kafka.Producer` sends as it is. (A msgspec Struct: many are made per request, and a frozen
    dataclass takes six times as long to make.)
    """

    headers: ClassVar[tuple[tuple[str, bytes], ...]] = ()

    tenant: str
    source: str
    id: str
    type: str
    subject: str
    lane: Lane
    key: bytes
    value: bytes

    @property
    def topic(self) -> str:
        return PRIORITY_TOPIC if self.lane == "priority" else BULK_TOPIC


def lane_of(payload: Payload) -> Lane:
    """Bulk for columns' and BI fields' own metadata; all else, and every tag change, is priority."""
    if isinstance(payload, AssetUpserted | AssetPatched) and payload.asset_type in BULK_ASSET_TYPES:
        return "bulk"
    return "priority"


def state_version(time: datetime, sequence: int, source: str, event_id: str) -> str:
    """A string whose byte order is the order of (time, sequence, source, id).

    `time` is at microsecond resolution, not before 1970; `source` holds no character at or below the space
    that parts it from `id`, hence the concatenation sorts as the tuple does.
    """
    micros = (time - _EPOCH) // timedelta(microseconds=1)
    return f"{micros:017d}.{sequence:020d}.{source} {event_id}"


def rfc3339(moment: datetime) -> str:
    """UTC with exactly six fractional digits, so that texts sort as times do."""
    return f"{moment.astimezone(UTC).isoformat(timespec='microseconds')[:26]}Z"


def parse_time(text: str) -> datetime:
    """An RFC 3339 time with an offset; more than six fractional digits are cut. Raises ValueError."""
    if "T" not in text.upper():
        raise ValueError("no 'T' between date and time")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no UTC offset")
    moment = moment.astimezone(UTC)
    if moment < _EPOCH:
        raise ValueError("before 1970")
    return moment


def _text(event: dict[str, Any], name: str, errors: list[FieldError], *, max_length: int = 1024) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        errors.append(FieldError(name, "is required: a non-empty string"))
        return ""
    if len(value) > max_length:
        errors.append(FieldError(name, f"must be at most {max_length} characters"))
    if any(ord(char) < 0x20 or ord(char) == 0x7F or 0xD800 <= ord(char) <= 0xDFFF for char in value):
        errors.append(FieldError(name, "must not hold control characters (NUL included) or lone surrogates"))
    return value


def _envelope(event: dict[str, Any]) -> tuple[str, str, str, int]:
    """(id, source, type, sequence) of a CloudEvent, or InvalidInputError naming every wrong attribute."""
    errors: list[FieldError] = []
    if event.get("specversion") != "1.0":
        errors.append(FieldError("specversion", "must be the string '1.0'"))
    event_id = _text(event, "id", errors)
    source = _text(event, "source", errors)
    if " " in source or "|" in source:
        errors.append(FieldError("source", "must be a URI reference: no spaces, no '|'"))
    event_type = _text(event, "type", errors)
    if event_type and event_type not in EVENT_TYPES:
        errors.append(FieldError("type", f"unknown type; expected one of: {', '.join(EVENT_TYPES)}"))
    content_type = event.get("datacontenttype", "application/json")
    if not isinstance(content_type, str) or content_type.split(";")[0].strip().lower() != "application/json":
        errors.append(FieldError("datacontenttype", "must be application/json"))
    sequence = 0
    raw_sequence = event.get("sequence")
    if raw_sequence is not None:
        if _SEQUENCE.match(str(raw_sequence)):
            sequence = int(raw_sequence)
        else:
            errors.append(FieldError("sequence", "must be a non-negative integer of at most 20 digits"))
    for name, value in event.items():
        if name in ("data", "data_base64"):
            continue
        if not _EXTENSION.match(name):
            errors.append(
                FieldError(name[:64], "attribute names are lower-case letters and digits (CloudEvents)")
            )
        elif isinstance(value, dict | list):
            errors.append(FieldError(name, "attribute values are strings, numbers or booleans (CloudEvents)"))
    if "data_base64" in event:
        errors.append(FieldError("data_base64", "binary data is not taken; send a JSON object as `data`"))
    elif not isinstance(event.get("data"), dict):
        errors.append(FieldError("data", "is required: a JSON object"))
    if errors:
        raise InvalidInputError(_summary(errors), errors)
    return event_id, source, event_type, sequence


def _summary(errors: list[FieldError]) -> str:
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{first.field}: {first.message}{more}"


def _payload(event_type: str, data: dict[str, Any]) -> Payload:
    try:
        return EVENT_TYPES[event_type].model_validate(data)
    except ValidationError as invalid:
        errors = [
            FieldError(".".join(["data", *(str(part) for part in item["loc"])]), item["msg"])
            for item in invalid.errors(include_url=False, include_input=False)
        ]
        raise InvalidInputError(_summary(errors), errors) from None


def _times(event: dict[str, Any], now: datetime) -> tuple[datetime, str | None]:
    """(effective time, original text when it was clamped)."""
    text = event.get("time")
    if text is None:
        return now, None
    try:
        moment = parse_time(str(text))
    except (ValueError, OverflowError) as invalid:
        error = FieldError("time", f"must be an RFC 3339 time with an offset, from 1970 on ({invalid})")
        raise InvalidInputError(_summary([error]), [error]) from None
    if moment > now + MAX_AHEAD:
        return now + MAX_AHEAD, str(text)
    return moment, None


def accept(
    tenant: str,
    event: dict[str, Any],
    now: datetime,
    *,
    request_id: str | None = None,
    caller: str | None = None,
) -> AcceptedEvent:
    """Check one CloudEvent (a decoded JSON object) and stamp it for `tenant` at `now` (aware, UTC).

    `caller` is whose credential brought it, as the audit log names it.

    Raises InvalidInputError naming each wrong field. The payload goes on as the client wrote it, unknown
    fields included; only the envelope is rewritten.
    """
    event_id, source, event_type, sequence = _envelope(event)
    data: dict[str, Any] = event["data"]
    payload = _payload(event_type, data)
    subject = payload.subject
    stated = event.get("subject")
    if stated is not None and stated != subject:
        error = FieldError("subject", f"must equal the payload's asset ('{subject[:200]}') or be left out")
        raise InvalidInputError(_summary([error]), [error])
    time, original = _times(event, now)
    lane = lane_of(payload)
    key = message_key(tenant, subject)
    stamped = {name: value for name, value in event.items() if name not in _RESERVED and value is not None}
    stamped |= {
        "subject": subject,
        "time": rfc3339(time),
        "datacontenttype": "application/json",
        "tenantid": tenant,
        "lane": lane,
        "partitionkey": key,
        "acceptedtime": rfc3339(now),
        "stateversion": state_version(time, sequence, source, event_id),
    }
    if raw_sequence := event.get("sequence"):
        stamped["sequence"] = str(raw_sequence)
    if original is not None:
        stamped["originaltime"] = original
    if request_id is not None:
        stamped["requestid"] = request_id
    if caller is not None:
        stamped["acceptedby"] = caller
    stamped["data"] = stamped.pop("data")
    try:
        value = orjson.dumps(stamped)
    except (TypeError, ValueError) as invalid:
        error = FieldError("data", f"cannot be written as JSON ({invalid})")
        raise InvalidInputError(_summary([error]), [error]) from None
    if len(value) > MAX_EVENT_BYTES:
        error = FieldError("data", f"the event is {len(value)} bytes, at most {MAX_EVENT_BYTES} are taken")
        raise InvalidInputError(_summary([error]), [error], code="event-too-large")
    return AcceptedEvent(tenant, source, event_id, event_type, subject, lane, key.encode(), value)
