"""The schedule of attempts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from lily_connectors.egress.retry import DEFAULT_PAUSES, RetryPolicy


def longest(_low: float, high: float) -> float:
    return high


def test_pauses_are_drawn_from_zero_to_their_bound() -> None:
    drawn: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        drawn.append((low, high))
        return high / 2

    policy = RetryPolicy(pauses=(1.0, 10.0))
    assert [policy.pause(tries, None, uniform) for tries in (1, 2, 3)] == [0.5, 5.0, None]
    assert drawn == [(0.0, 1.0), (0.0, 10.0)]


def test_the_receivers_wish_is_a_lower_bound() -> None:
    policy = RetryPolicy(pauses=(1.0,))
    assert policy.pause(1, 30.0, longest) == 30.0
    assert policy.pause(1, 0.5, longest) == 1.0
    assert policy.pause(2, 30.0, longest) is None


def test_default_is_eight_attempts_over_about_a_day() -> None:
    policy = RetryPolicy()
    assert policy.max_attempts == 8
    assert 12 * 3600 < sum(DEFAULT_PAUSES) / 2 < 36 * 3600


def test_policy_is_bounded() -> None:
    for pauses in ([-1], [8 * 24 * 3600], [1] * 21, ["x"]):
        with pytest.raises(ValidationError):
            RetryPolicy.model_validate({"pauses": pauses})
    assert RetryPolicy(pauses=()).max_attempts == 1
