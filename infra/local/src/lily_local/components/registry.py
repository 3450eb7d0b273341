"""Every component, in the order in which `lily status` shows them."""

from __future__ import annotations

from collections.abc import Iterable

from lily_local.components.connect import CONNECT
from lily_local.components.kafka import KAFKA
from lily_local.components.model import Component
from lily_local.components.mongo import MONGO
from lily_local.components.postgres import POSTGRES
from lily_local.components.product import API, EGRESS, FANOUT, LAKE, MIGRATIONS, TOPICS
from lily_local.components.s3 import S3
from lily_local.components.trino import TRINO
from lily_local.errors import UserError

ALL: dict[str, Component] = {
    component.name: component
    for component in (
        KAFKA,
        MONGO,
        POSTGRES,
        S3,
        TOPICS,
        MIGRATIONS,
        API,
        EGRESS,
        FANOUT,
        LAKE,
        CONNECT,
        TRINO,
    )
}
DEFAULT = tuple(name for name, component in ALL.items() if not component.optional)
OPTIONAL = tuple(name for name, component in ALL.items() if component.optional)
SERVERS = ("kafka", "mongo", "postgres", "s3")


def select(names: Iterable[str] | None) -> list[Component]:
    """The named components (when None, all that are not optional) in the order of `ALL`, with what they need; raises UserError."""
    wanted = set(DEFAULT if names is None else names)
    if unknown := sorted(wanted - set(ALL)):
        raise UserError(f"no component {', '.join(unknown)}; there are {', '.join(ALL)}")
    pending = list(wanted)
    while pending:
        for need in ALL[pending.pop()].needs:
            if need not in wanted:
                wanted.add(need)
                pending.append(need)
    return [component for name, component in ALL.items() if name in wanted]
