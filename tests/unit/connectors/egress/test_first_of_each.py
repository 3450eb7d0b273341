"""The hedged pair's copies within one batch: the first counts, and so does its place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lily_common.envelope import accept
from lily_connectors.egress.judge import first_of_each
from lily_connectors.egress.notices import Notice, read

T0 = datetime(2026, 5, 1, tzinfo=UTC)


def attached(second: int) -> Notice:
    event = {
        "specversion": "1.0",
        "id": str(second),
        "source": "urn:test",
        "type": "lily.classification.attached",
        "time": (T0 + timedelta(seconds=second)).isoformat(),
        "data": {"qualified_name": "db://a", "tag": "PII", "origin": f"o{second}"},
    }
    return read(accept("acme", event, T0).value, 1, T0)


def test_a_second_copy_behind_a_later_event_does_not_move_the_first() -> None:
    a, b, c = attached(1), attached(2), attached(3)
    batch = [a, b, attached(1), c, attached(2), attached(3)]
    assert [notice.id for notice in first_of_each(batch, frozenset())] == ["1", "2", "3"]
    assert first_of_each(batch, frozenset())[0] is a


def test_what_was_judged_before_is_left_out() -> None:
    a, b = attached(1), attached(2)
    assert first_of_each([a, b, a], {a.identity}) == [b]
