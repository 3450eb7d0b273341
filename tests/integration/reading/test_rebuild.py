"""A rebuild: what the lake has comes back, what it has not goes, what is newer than the lake stays."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from lily_common.documents import ASSETS, EDGES, INCIDENTS
from lily_common.envelope import accept
from lily_common.state import event_registers
from lily_spark.mirror.changes import Message
from lily_spark.mirror.chunk import mirror_chunk
from lily_spark.mirror.rebuild import remove_unseen
from lily_spark.mirror.rebuilding import Rebuild, SilverRow, whole_assets, write
from lily_spark.mirror.upkeep import expire

#: The past of these tests must be recent, or the mirror would not keep it.
START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=5)
T = "pg://s/t"


class Lake:
    """Silver's rows, and the live writer beside it."""

    def __init__(self, mirror, config):
        self.mirror, self.config = mirror, config
        self.rows, self.number = [], 0

    def event(self, kind, data, *, at=None, tenant="shop"):
        self.number += 1
        envelope = {
            "specversion": "1.0",
            "id": str(self.number),
            "source": "s",
            "type": f"lily.{kind}",
            "data": data,
        }
        return accept(tenant, envelope, at or START + timedelta(minutes=self.number))

    def live(self, *events, config=None):
        messages = [Message(event.key.decode(), event.value.decode(), f"t/0/{event.id}") for event in events]
        mirror_chunk(self.mirror, messages, config or self.config)

    def store(self, *events):
        for event in events:
            envelope = orjson.loads(event.value)
            for key, register in event_registers(envelope).items():
                data = orjson.dumps(register.data).decode()
                accepted = datetime.fromisoformat(envelope["acceptedtime"]).astimezone()
                row = (event.tenant, event.subject, key, register.type, register.version, data, accepted)
                self.rows.append(SilverRow(*row))

    def both(self, *events):
        self.live(*events)
        self.store(*events)

    def rebuild(self, settled, config=None, tenant=None):
        run = Rebuild(str(self.number), settled)
        rows = sorted(row for row in self.rows if tenant in (None, row.tenant))
        for changes in whole_assets(rows, config or self.config):
            write(changes, config or self.config, run)
        return remove_unseen(self.mirror, tenant, run) if settled else 0

    def state(self):
        found = {}
        for name in (ASSETS, EDGES, INCIDENTS):
            for document in self.mirror[name].find({}):
                for transient in ("rev", "size", "seen"):
                    document.pop(transient, None)
                found[name, document["_id"]] = document
        return found


@pytest.fixture
def lake(mirror, config):
    return Lake(mirror, config)


def story(lake):
    return [
        lake.event(
            "asset.upserted",
            {"qualified_name": T, "asset_type": "table", "description": "d", "sql": "S3CRET"},
        ),
        lake.event("asset.patched", {"qualified_name": T, "set": {"rank": 1, "sql": "S3CRET"}}),
        lake.event("classification.attached", {"qualified_name": T, "tag": "PII"}),
        lake.event("lineage.edge.added", {"upstream": "pg://s/u", "downstream": T, "sql": "S3CRET"}),
        lake.event(
            "incident.opened", {"qualified_name": T, "incident_id": "1", "title": "i", "sql": "S3CRET"}
        ),
        lake.event("asset.upserted", {"qualified_name": "pg://s/gone", "asset_type": "table"}),
        lake.event("asset.deleted", {"qualified_name": "pg://s/gone"}),
    ]


def test_from_nothing_it_makes_what_live_writes_made(lake):
    lake.both(*story(lake))
    lake.rows += lake.rows[::-1]  # both layers hold some registers
    live = lake.state()
    for name in (ASSETS, EDGES, INCIDENTS):
        lake.mirror[name].delete_many({})
    lake.rebuild(datetime.now(UTC))
    assert lake.state() == live
    lake.rebuild(datetime.now(UTC))
    assert lake.state() == live


def test_what_the_lake_has_not_goes_unless_it_may_not_have_it_yet(lake):
    settled = START + timedelta(minutes=30)
    lake.both(*story(lake))
    kept = lake.state()
    old = [
        lake.event("classification.attached", {"qualified_name": T, "tag": "GHOST"}),
        lake.event("asset.upserted", {"qualified_name": "pg://s/ghost", "asset_type": "table"}),
        lake.event("lineage.edge.added", {"upstream": "pg://s/ghost", "downstream": T}),
        lake.event("incident.opened", {"qualified_name": T, "incident_id": "ghost", "title": "g"}),
    ]
    lake.live(*old)
    assert lake.rebuild(settled) == 3
    assert lake.state() == kept
    new = [
        lake.event("classification.attached", {"qualified_name": T, "tag": "NEW"}, at=settled),
        lake.event("asset.upserted", {"qualified_name": "pg://s/new", "asset_type": "table"}, at=settled),
        lake.event("lineage.edge.added", {"upstream": "pg://s/new", "downstream": T}, at=settled),
    ]
    lake.live(*new)
    expected = lake.state()
    assert lake.rebuild(settled) == 0
    assert lake.state() == expected
    assert lake.mirror[ASSETS].find_one({"qualified_name": T})["tags"] == ["NEW", "PII"]


def test_when_the_lake_is_behind_nothing_goes(lake):
    lake.both(*story(lake))
    lake.live(lake.event("classification.attached", {"qualified_name": T, "tag": "AHEAD"}))
    expected = lake.state()
    assert lake.rebuild(None) == 0
    assert lake.state() == expected


@pytest.mark.parametrize("settled", [None, START + timedelta(days=1)])
def test_a_stricter_policy_takes_fields_out_and_a_looser_one_brings_them_back(lake, settled):
    strict = replace(lake.config, sensitive={"shop": frozenset({"sql"})})
    lake.both(*story(lake))
    loose = lake.state()
    assert "S3CRET" in str(loose)
    lake.rebuild(settled, strict)
    assert "S3CRET" not in str(lake.state())
    lake.rebuild(settled)
    assert {key: value for key, value in lake.state().items() if key[0] != ASSETS} == {
        key: value for key, value in loose.items() if key[0] != ASSETS
    }
    assert "S3CRET" in str(lake.state())


def test_one_tenants_rebuild_leaves_the_others_alone(lake):
    lake.live(lake.event("asset.upserted", {"qualified_name": T, "asset_type": "table"}, tenant="bank"))
    lake.both(*story(lake))
    lake.rebuild(datetime.now(UTC), tenant="shop")
    assert lake.mirror[ASSETS].count_documents({"tenant": "bank"}) == 1


def test_what_is_no_longer_recent_comes_back_as_a_stub(lake):
    old = datetime.now(UTC) - timedelta(days=100)
    lake.store(lake.event("asset.upserted", {"qualified_name": T, "asset_type": "table"}, at=old))
    lake.rebuild(datetime.now(UTC))
    document = lake.mirror[ASSETS].find_one({})
    assert (document["expired"], document.get("registers")) == (True, None)


def test_an_asset_that_came_back_is_made_whole(lake):
    lake.both(*story(lake))
    expire(lake.mirror, START + timedelta(days=92))
    lake.both(lake.event("classification.attached", {"qualified_name": T, "tag": "GDPR"}))
    assert lake.mirror[ASSETS].find_one({"qualified_name": T})["partial"] is True
    lake.rebuild(None)
    document = lake.mirror[ASSETS].find_one({"qualified_name": T})
    assert "partial" not in document
    assert (document["tags"], document["asset_type"]) == (["GDPR", "PII"], "table")


def test_live_writes_during_a_rebuild_survive(lake):
    """A write between the rebuild's visit and its removal keeps the mark; one that makes a new asset is recent."""
    lake.both(*story(lake))
    run = Rebuild("run", datetime.now(UTC) - timedelta(minutes=5))
    for changes in whole_assets(sorted(lake.rows), lake.config):
        write(changes, lake.config, run)
    now = datetime.now(UTC)
    lake.live(
        lake.event("classification.attached", {"qualified_name": T, "tag": "LIVE"}, at=now),
        lake.event("asset.upserted", {"qualified_name": "pg://s/new", "asset_type": "table"}, at=now),
    )
    assert remove_unseen(lake.mirror, None, run) == 0
    assert lake.mirror[ASSETS].find_one({"qualified_name": T})["tags"] == ["LIVE", "PII"]
