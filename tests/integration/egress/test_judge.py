"""The decision through real PostgreSQL: any order, repetition and cut into batches ends the same, told last."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.egress.conftest import ControlPlane

from lily_common import state
from lily_common.crypto import SecretBox
from lily_common.envelope import accept
from lily_connectors.contract import HttpRequest, Outcome, Ports
from lily_connectors.egress.book import Book
from lily_connectors.egress.connections import Connection, connect
from lily_connectors.egress.dispatcher import Dispatcher
from lily_connectors.egress.jobs import Job, Result
from lily_connectors.egress.judge import Judge
from lily_connectors.egress.notices import Notice, read

T0 = datetime(2026, 5, 1, tzinfo=UTC)
SECONDS = st.integers(0, 9)
ASSETS = st.sampled_from(["postgres://db/a", "postgres://db/b"])
TAGS = st.builds(
    lambda kind, qualified_name, tag, origin, second: (
        f"classification.{kind}",
        second,
        {"qualified_name": qualified_name, "tag": tag, "origin": origin},
    ),
    st.sampled_from(["attached", "detached"]),
    ASSETS,
    st.sampled_from(["PII", "GDPR"]),
    st.sampled_from(["direct", "lineage:x"]),
    SECONDS,
)
DELETES = st.builds(
    lambda qualified_name, second: ("asset.deleted", second, {"qualified_name": qualified_name}),
    ASSETS,
    SECONDS,
)
EVENTS = st.lists(st.one_of(TAGS, TAGS, TAGS, DELETES), min_size=1, max_size=14)


class Nowhere:
    """Nothing is sent and nothing recorded: what counts is what was written."""

    async def post(self, request: HttpRequest, *, within: float) -> Outcome:
        return Outcome(True, 200)

    async def append(self, record: object) -> Outcome:
        return Outcome(True)

    def put(self, result: Result) -> None: ...

    def release(self, jobs: Iterable[Job]) -> None: ...

    def disable(self, subscriber: object, reason: str) -> None: ...


def notices(tenant: str, events: Sequence[tuple[str, int, dict[str, Any]]]) -> list[Notice]:
    made = []
    for number, (name, second, data) in enumerate(events):
        event = {
            "specversion": "1.0",
            "id": f"e{number}",
            "source": "urn:test",
            "type": f"lily.{name}",
            "time": (T0 + timedelta(seconds=second)).isoformat(),
            "data": data,
        }
        made.append(read(accept(tenant, event, T0 + timedelta(hours=1)).value, 1, datetime.now(UTC)))
    return made


async def judged(uri: str, key: bytes, batches: Sequence[Sequence[Notice]], *, forgetful: bool) -> None:
    """Judge the batches one after the other; a forgetful worker is a new one for each batch."""
    async with await connect(uri, "test") as connection:
        judge: Judge | None = None
        for batch in batches:
            if judge is None or forgetful:
                book = Book(SecretBox(key))
                nowhere: Any = Nowhere()
                dispatcher = Dispatcher(book, Ports(nowhere, nowhere), nowhere)
                judge = Judge(book, dispatcher, 1, "https://lily.test")
            await judge.judge(connection, batch, [0])
        await dispatcher.stop(0)


async def told(connection: Connection, tenant: str) -> list[tuple[str, str, str, str]]:
    """(asset, transition, tag, event id) of the tenant's topic, in order."""
    cursor = await connection.execute(
        "SELECT n.subject, n.transition, coalesce(n.body::jsonb->'data'->>'tag', ''), n.event_id FROM deliveries d"
        " JOIN notices n ON n.id = d.notice_id WHERE d.tenant = %s ORDER BY d.position",
        (tenant,),
    )
    return [(row[0], row[1], row[2], row[3]) for row in await cursor.fetchall()]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=EVENTS, data=st.data(), forgetful=st.booleans())
def test_any_order_and_cut_ends_the_same_and_is_told_last(
    control: ControlPlane, events: list[tuple[str, int, dict[str, Any]]], data: st.DataObject, forgetful: bool
) -> None:
    tenant = f"t-{secrets.token_hex(6)}"
    made = notices(tenant, events)
    arrival = data.draw(st.permutations([*made, *made]))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(arrival) - 1), max_size=4)))
    batches = [arrival[start:end] for start, end in zip([0, *cuts], [*cuts, len(arrival)], strict=True)]
    uri = control.settings.postgres_uri.get_secret_value()

    async def run() -> list[tuple[str, str, str, str]]:
        await judged(uri, control.settings.master_key_bytes, batches, forgetful=forgetful)
        async with await connect(uri, "test") as connection:
            return await told(connection, tenant)

    rows = asyncio.run(run())
    assert len({row[3] for row in rows}) == len(rows), "each event is told once"
    for asset in ("postgres://db/a", "postgres://db/b"):
        wanted = set(state.assemble(state.fold(one.event for one in made if one.subject == asset)).tags)
        for tag in ("PII", "GDPR"):
            names = [name for subject, name, told_tag, _ in rows if (subject, told_tag) == (asset, tag)]
            assert names == [("attached", "detached")[index % 2] for index in range(len(names))]
            assert (names[-1:] == ["attached"]) == (tag in wanted)
