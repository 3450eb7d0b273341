"""The arguments of a replay."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from lily_api.schemas import Input, Text
from lily_common.envelope import parse_time, rfc3339
from lily_common.events import EVENT_TYPES
from lily_common.names import check_qualified_name

MAX_RATE = 5_000


def _bound(value: Any) -> Any:
    """A commit number as an integer, or a time as canonical text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be a commit number or an RFC 3339 time with an offset")  # noqa: TRY004
    text = str(value)
    if text.isascii() and text.isdigit():
        if int(text) >= 2**62:
            raise ValueError("is no commit number")
        return int(text)
    try:
        return rfc3339(parse_time(text.replace(" ", "+")))
    except (ValueError, OverflowError) as invalid:
        raise ValueError(f"must be a commit number or an RFC 3339 time with an offset ({invalid})") from None


def _type(value: str) -> str:
    if value not in EVENT_TYPES:
        raise ValueError(f"'{value[:100]}' is no event type; expected one of: {', '.join(EVENT_TYPES)}")
    return value


def _asset(value: str) -> str:
    problem = check_qualified_name(value.removesuffix("*"))
    if problem is not None:
        raise ValueError(problem)
    return value


Bound = Annotated[int | str, BeforeValidator(_bound)]
EventType = Annotated[str, AfterValidator(_type)]
AssetPattern = Annotated[str, AfterValidator(_asset)]
TopicName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


class ReplayArgs(Input):
    """Which events of the past go where, and how fast. Exactly one of `to_subscription` and `to_topic` is given."""

    model_config = ConfigDict(serialize_by_alias=True)

    from_: Bound | None = Field(
        None,
        alias="from",
        description="First commit, or time of acceptance (included); absent: from the first that is kept",
        examples=["2026-01-02T10:00:00Z", 4711],
    )
    to: Bound | None = Field(
        None,
        description="Last commit (included), or time of acceptance (left out); absent: to the last that there is",
    )
    types: list[EventType] = Field(
        default_factory=list,
        max_length=50,
        description="Event types; none: those that the subscription hears, or all to a topic",
    )
    assets: list[AssetPattern] = Field(
        default_factory=list,
        max_length=100,
        description="Qualified names; one that ends in `*` is a prefix; none: all assets",
    )
    to_subscription: Annotated[Text | None, Field(max_length=64, description="Id of a subscription")] = None
    to_topic: TopicName | None = Field(
        None, description="Name of a replay topic: `lily.<tenant>.replay.<name>`, made when it is not there"
    )
    rate: float = Field(200, gt=0, le=MAX_RATE, description="Events a second")
    filter: bool = Field(True, description="Whether the subscription's own types and filters apply")

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if (self.to_subscription is None) == (self.to_topic is None):
            raise ValueError("give exactly one target: to_subscription or to_topic")
        return self

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        first, last = self.from_, self.to
        if isinstance(first, int) and isinstance(last, int) and last < first:
            raise ValueError("to is before from")
        if isinstance(first, str) and isinstance(last, str) and parse_time(last) <= parse_time(first):
            raise ValueError("to is not after from")
        return self

    @property
    def times(self) -> tuple[datetime | None, datetime | None]:
        """The bounds that are times."""
        bounds = (parse_time(bound) if isinstance(bound, str) else None for bound in (self.from_, self.to))
        first, last = bounds
        return first, last
