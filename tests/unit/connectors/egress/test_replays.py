"""A message of `lily.replays`: what it says, what becomes of it, what is none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import orjson
import pytest
from confluent_kafka import Message

from lily_common.envelope import accept
from lily_connectors.egress.book import Book, Subscriber
from lily_connectors.egress.dispatcher import Dispatcher
from lily_connectors.egress.jobs import Mode
from lily_connectors.egress.notices import UnreadableNoticeError
from lily_connectors.egress.replays import ReplayLane, read
from lily_connectors.sinks.kafka import TopicWriter

T0 = datetime(2026, 5, 1, tzinfo=UTC)
HEADERS = {"replayid": b"cmd_1", "target": b"subscription/sub_1", "filter": b"yes"}


class Given:
    """As much of a Kafka message as is asked of it."""

    def __init__(self, value: bytes | None, headers: dict[str, bytes]) -> None:
        self._value, self._headers = value, headers

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes]]:
        return list(self._headers.items())

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_767_225_600_000


def message(kind: str = "classification.attached", **headers: bytes) -> Message:
    data = {"qualified_name": "db://a", "tag": "PII", "asset_type": "table"}
    event = {"specversion": "1.0", "id": "1", "source": "urn:test", "type": f"lily.{kind}", "data": data}
    value = orjson.loads(accept("acme", event, T0).value) | {"replayid": "cmd_1"}
    return cast(Message, Given(orjson.dumps(value), HEADERS | headers))


class Subscribers(Book):
    def __init__(self, **fields: Any) -> None:
        plain = {"id": "sub_1", "tenant": "acme", "kind": "webhook", "managed": False, "status": "active"}
        rest = {"types": frozenset(), "matches": lambda _: True, "retry": None, "timeout": 1.0, "sealed": ""}
        self._by_id = {"sub_1": Subscriber(**plain | rest | {"box": None} | fields)}


class Planner(Dispatcher):
    def __init__(self) -> None:
        pass

    def plan(self, *_: Any) -> Mode:
        return Mode.FRESH


def delivery(given: Message, **fields: Any) -> Any:
    lane = ReplayLane(Subscribers(**fields), Planner(), cast(TopicWriter, None), 1)
    return lane._delivery(read(given, T0))


def test_a_delivery_is_the_replays_own() -> None:
    one = delivery(message())
    other = delivery(message(replayid=b"cmd_2"))
    assert one.id != other.id
    assert one.lane != other.lane
    assert one.transition.identity != other.transition.identity
    assert (one.replay_id, one.subscription_id) == ("cmd_1", "sub_1")
    assert delivery(message()).id == one.id
    body = orjson.loads(one.transition.body)
    assert (body["transition"], body["replayid"], body["id"]) == ("replayed", "cmd_1", "1")


def test_only_the_subscription_of_the_events_tenant_that_wants_it_gets_it() -> None:
    assert delivery(message(), tenant="other") is None
    assert delivery(message(target=b"subscription/sub_2")) is None
    assert delivery(message(), types=frozenset({"lily.asset.deleted"})) is None
    assert delivery(message(), matches=lambda _: False) is None
    assert delivery(message(filter=b"no"), matches=lambda _: False) is not None
    assert delivery(message("asset.upserted")) is None
    assert delivery(message("asset.upserted", filter=b"no")) is not None


@pytest.mark.parametrize(
    "given",
    [
        Given(None, HEADERS),
        Given(b"{}", HEADERS),
        Given(b"[]", HEADERS),
        Given(b'{"id":"1"', HEADERS),
        Given(cast(Any, message()).value(), {}),
        Given(cast(Any, message()).value(), HEADERS | {"target": b"sub_1"}),
        Given(cast(Any, message()).value(), HEADERS | {"target": b"queue/x"}),
    ],
)
def test_what_is_none_is_refused(given: Given) -> None:
    with pytest.raises(UnreadableNoticeError):
        read(cast(Message, given), T0)
