"""Erasing from the mirror: documents about it go, texts in the others are replaced, and doing it again does nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pymongo.database import Database
from tests.support.tenant import event

from lily_common.documents import ASSETS, EDGES, INCIDENTS
from lily_common.envelope import accept
from lily_common.erasing.digests import DigestKey, identifier
from lily_common.erasing.stoplist import ERASED, Entry, Matcher
from lily_spark.erasing.documents import erase
from lily_spark.mirror.changes import Message
from lily_spark.mirror.chunk import mirror_chunk
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import Document

KEY = DigestKey(bytes(range(32)))
GONE, STAYS = "pg://h/shop/customers", "pg://h/shop/orders"


def _mirror(mirror: Database[Document], config: MirrorConfig, tenant: str = "acme") -> None:
    events = [
        event("asset.upserted", {"qualified_name": GONE, "asset_type": "table"}),
        event(
            "asset.upserted",
            {"qualified_name": STAYS, "asset_type": "table", "owners": ["jane@x.io", "bob@x.io"]},
        ),
        event("classification.attached", {"qualified_name": STAYS, "tag": "PII", "reason": "says jane@x.io"}),
        event("lineage.edge.added", {"upstream": GONE, "downstream": STAYS}),
        event("incident.opened", {"qualified_name": STAYS, "incident_id": "i1", "title": "ask jane@x.io"}),
        event("incident.opened", {"qualified_name": GONE, "incident_id": "i2", "title": "late"}),
    ]
    accepted = [accept(tenant, one, datetime.now(UTC)) for one in events]
    messages = [
        Message(one.key.decode(), one.value.decode(), f"t/0/{number}") for number, one in enumerate(accepted)
    ]
    mirror_chunk(mirror, messages, config)


def _all(mirror: Database[Document]) -> str:
    return repr([list(mirror[name].find()) for name in (ASSETS, EDGES, INCIDENTS)])


def _count(pieces: Iterable[tuple[str, int]]) -> int:
    return sum(count for _name, count in pieces)


def test_an_asset_goes_with_its_edges_and_incidents(mirror: Database[Document], config: MirrorConfig) -> None:
    _mirror(mirror, config)
    _mirror(mirror, config, "beta")
    entry = Entry(id="e", tenant="acme", kind="asset", digest=KEY.asset("acme", GONE))
    matcher = Matcher(KEY, "acme", [entry])
    assert _count(erase(mirror, matcher, config)) == 3
    assert mirror[ASSETS].count_documents({"tenant": "acme"}) == 1
    assert mirror[INCIDENTS].count_documents({"tenant": "acme"}) == 1
    assert mirror[EDGES].count_documents({"tenant": "acme"}) == 0
    assert mirror[ASSETS].count_documents({"tenant": "beta"}) == 2
    assert _count(erase(mirror, matcher, config)) == 0


def test_a_person_is_replaced_and_the_asset_stays(mirror: Database[Document], config: MirrorConfig) -> None:
    _mirror(mirror, config)
    who = identifier("jane@x.io")
    entry = Entry(
        id="e", tenant="acme", kind="person", digest=KEY.person("acme", who.form, who.token), form=who.form
    )
    matcher = Matcher(KEY, "acme", [entry])
    assert _count(erase(mirror, matcher, config)) == 2
    left = _all(mirror)
    assert "jane" not in left
    assert ERASED in left
    held = mirror[ASSETS].find_one({"qualified_name": STAYS})
    assert held is not None
    assert (held["tags"], held["asset_type"]) == (["PII"], "table")
    assert "bob@x.io" in repr(held)
    assert _count(erase(mirror, matcher, config)) == 0
