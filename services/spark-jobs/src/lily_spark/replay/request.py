"""What a replay was asked to do, and how far it is: the value of its record on `lily.replay-progress`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from lily_common.envelope import parse_time


class Position(NamedTuple):
    """A place in the stream; an event's own place is (commit, topic, partition, offset). Orders as tuples do."""

    commit: int
    topic: str = ""
    partition: int = -1
    offset: int = -1


BEGINNING: Final = Position(-1)


@dataclass(frozen=True)
class Request:
    """One replay, as the API checked it.

    A bound is a commit number (both ends included) or a time of acceptance (the later end left out). `assets` are
    qualified names; one that ends in `*` is a prefix. `target` is `subscription/<id>` or `topic/<name>`; `selective`
    says that the subscription's own filter applies. `rate` is in events a second.
    """

    id: str
    tenant: str
    target: str
    rate: float
    selective: bool = True
    first_commit: int = 0
    last_commit: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    types: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()

    @classmethod
    def read(cls, command: dict[str, Any]) -> Request:
        """The request in a command `{id, tenant, args}`. Raises KeyError, TypeError or ValueError when it is none."""
        args = command["args"]
        first_commit, since = _bound(args.get("from"))
        last_commit, until = _bound(args.get("to"))
        subscription, topic = args.get("to_subscription"), args.get("to_topic")
        return cls(
            id=command["id"],
            tenant=command["tenant"],
            target=f"subscription/{subscription}" if subscription else f"topic/{topic}",
            rate=float(args["rate"]),
            selective=bool(args.get("filter", True)),
            first_commit=first_commit or 0,
            last_commit=last_commit,
            since=since,
            until=until,
            types=tuple(args.get("types") or ()),
            assets=tuple(args.get("assets") or ()),
        )


def _bound(value: int | str | None) -> tuple[int | None, datetime | None]:
    """(commit, time) of a bound: one of them, or neither."""
    if value is None:
        return None, None
    return (value, None) if isinstance(value, int) else (None, parse_time(value))


@dataclass
class Progress:
    """How far a replay is. `through` is the last commit that it will read, fixed when it begins.

    `sent` counts events that Kafka has acknowledged.
    """

    command: dict[str, Any]
    through: int | None = None
    position: Position = BEGINNING
    time: str | None = None
    sent: int = 0
    ended: datetime | None = None
    request: Request = field(init=False)

    def __post_init__(self) -> None:
        self.request = Request.read(self.command)

    def detail(self, ahead: int = 0) -> dict[str, Any]:
        """What the command's detail shows; `ahead` events are read and not sent yet."""
        return {
            "read": self.sent + ahead,
            "sent": self.sent,
            "position": {"commit": max(self.position.commit, 0), "time": self.time},
            "last_commit": self.through,
        }

    def stored(self) -> dict[str, Any]:
        """As it is kept in Kafka."""
        return {
            "command": self.command,
            "through": self.through,
            "position": list(self.position),
            "time": self.time,
            "sent": self.sent,
            "ended": self.ended.isoformat() if self.ended else None,
        }

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> Progress:
        """What `stored` gave. Raises KeyError, TypeError or ValueError for anything else."""
        ended = datetime.fromisoformat(stored["ended"]) if stored["ended"] else None
        return cls(**stored | {"position": Position(*stored["position"]), "ended": ended})
