"""Reading assets, with a real MongoDB and a Delta lake on disk."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.reading.world import START, attached, column, deleted, edge, incident, table

from lily_common.documents import ASSETS
from lily_common.envelope import rfc3339
from lily_spark.mirror.upkeep import expire

T = "postgres://shop-db:5432/shop/public/customers"


async def test_an_asset_with_all_that_is_known_of_it(world):
    world.send(
        table(
            T, name="customers", description="who buys", owners=["ann"], properties={"rows": 7}, colour="red"
        ),
        ("asset.upserted", {"qualified_name": T, "asset_type": "table", "aspect": "quality", "score": 0.9}),
        attached(T, "PII", origin="rule|7", origin_kind="rule", reason="name"),
        attached(T, "PII"),
    )
    body = (await world.asset(T)).json()
    assert body["qualified_name"] == T
    assert (body["asset_type"], body["name"], body["description"]) == ("table", "customers", "who buys")
    assert body["parent"] == "postgres://shop-db:5432/shop/public"
    assert (body["owners"], body["properties"], body["extra"]) == (["ann"], {"rows": 7}, {"colour": "red"})
    assert body["aspects"] == {
        "quality": {
            "asset_type": "table",
            "score": 0.9,
        }
    }
    assert [origin["origin"] for origin in body["tags"][0]["origins"]] == ["direct", "rule|7"]
    assert (body["partial"], body["answered_from"]) == (False, "mirror")
    assert body["updated_at"] == "2026-01-01T00:03:00Z"


async def test_a_tag_before_its_asset_makes_a_partial_one(world):
    world.send(attached(T, "PII"))
    body = (await world.asset(T)).json()
    assert (body["partial"], body["asset_type"], body["name"]) == (True, None, "customers")


async def test_unknown_and_deleted_are_told_apart_and_both_404(world):
    answer = await world.asset(T)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:lily:problem:unknown-asset")
    world.send(table(T), deleted(T))
    answer = await world.asset(T)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:lily:problem:asset-deleted")
    assert (await world.get("/v1/assets")).json()["items"] == []


async def test_another_tenants_asset_is_unknown(world):
    world.send(table(T))
    stranger = await world.api.key(await world.api.tenant(), "assets:read")
    for part in ("", "/lineage", "/incidents", "/history"):
        path = f"/v1/assets/{T.replace('/', '%2F')}{part}"
        answer = await world.api.client.get(path, headers={"X-API-Key": stranger["key"]})
        assert answer.status_code == 404, part
    answer = await world.api.client.get("/v1/assets", headers={"X-API-Key": stranger["key"]})
    assert answer.json()["items"] == []


@pytest.mark.parametrize(
    "name",
    [
        "bi://x/ünï 😀 100%/a?b#c;d",
        "pg://s/with/lineage",
        "pg://s//double//slash/",
        "lineage",
        "pg://s/a%2Fb",
        "a'b\"c\\d; DROP",
        "pg://s/../../etc",
    ],
)
async def test_any_name_can_be_read(world, name):
    world.send(table(name, name="it"), edge("pg://up", name), incident(name, "1"))
    assert (await world.asset(name)).json()["qualified_name"] == name
    assert (await world.asset(name, "/lineage")).json()["root"] == name
    assert (await world.asset(name, "/incidents")).json()["items"][0]["qualified_name"] == name
    assert (await world.asset(name, "/history")).json()["items"][-1]["data"]["qualified_name"] == name
    assert (await world.asset(name, as_of="2027-01-01T00:00:00Z")).json()["qualified_name"] == name


async def test_a_name_with_plain_slashes_can_be_read_and_its_parts_too(world):
    world.send(table(T), edge("pg://up", T))
    assert (await world.get(f"/v1/assets/{T}")).json()["qualified_name"] == T
    assert (await world.get(f"/v1/assets/{T}/lineage")).json()["root"] == T


@pytest.mark.parametrize("name", ["%00", "a%00b", "a%7Cb", "x" * 3000, "%20a", "%0A"])
async def test_what_cannot_be_a_name_is_refused(world, name):
    answer = await world.get(f"/v1/assets/{name}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "path.qualified_name"


async def test_filters_and_paging(world):
    names = [f"{T}/c{number:02}" for number in range(25)]
    world.send(*(column(name, name=name[-3:]) for name in names), table(T, name="customers"))
    world.send(*(attached(name, "PII") for name in names[:10]), deleted(names[3]))
    seen, cursor = [], None
    while True:
        page = (
            await world.get("/v1/assets", limit=4, tag="PII", **({"cursor": cursor} if cursor else {}))
        ).json()
        seen += [item["qualified_name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [name for name in names[:10] if name != names[3]]

    async def count(**params):
        answer = await world.get("/v1/assets", limit=500, **params)
        assert answer.status_code == 200, answer.text
        return len(answer.json()["items"])

    assert await count() == 25
    assert await count(type="table") == 1
    assert await count(parent=T, type="column") == 24
    assert await count(tag="pii") == 0
    assert await count(q="customers") == 25
    assert await count(q="CUSTOM c07") == 1
    assert await count(q="ustomers") == 0
    assert await count(q="shop-db 5432") == 25


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"cursor": "xx"}, "query.cursor"),
        ({"cursor": "WzFd"}, "query.cursor"),
        ({"type": "nonsense"}, "query.type"),
        ({"limit": "0"}, "query.limit"),
        ({"limit": "501"}, "query.limit"),
        ({"q": "x" * 201}, "query.q"),
    ],
)
async def test_wrong_parameters_are_named(world, params, field):
    answer = await world.get("/v1/assets", **params)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


@pytest.mark.parametrize("q", [".*", "(a+)+$", "$where", "--"])
async def test_a_search_is_never_a_pattern(world, q):
    world.send(table(T))
    answer = await world.get("/v1/assets", q=q)
    items = answer.json().get("items", [])
    assert (answer.status_code, items) in ((200, []), (422, []))


async def test_a_cursor_cannot_reach_another_tenant(world):
    world.send(table("a"))
    other = await world.api.tenant()
    from lily_api import paging

    for text in (f"\x01{other}", "|", chr(0x10FFFF)):
        page = (await world.get("/v1/assets", cursor=paging.encode(text))).json()
        assert all(item["qualified_name"] == "a" for item in page["items"])


async def test_as_of_is_what_had_been_accepted_by_then(world):
    events = world.send(
        table(T, name="one"), attached(T, "PII"), table(T, name="two"), deleted(T), table(T, name="three")
    )
    names = []
    for event in events:
        answer = await world.asset(T, as_of=event["acceptedtime"])
        names.append(answer.json().get("name") or answer.json()["type"])
    assert names == ["one", "one", "two", "urn:lily:problem:asset-deleted", "three"]
    assert (await world.asset(T, as_of=rfc3339(START - timedelta(seconds=1)))).status_code == 404
    between = await world.asset(T, as_of="2026-01-01T01:01:30+01:00")
    assert [tag["tag"] for tag in between.json()["tags"]] == ["PII"]
    assert between.json()["answered_from"] == "lake"
    assert (await world.asset(T, as_of="yesterday")).json()["errors"][0]["field"] == "query.as_of"


async def test_history_pages_newest_first_over_days(world):
    days = [0, 0, 3, 3, 3, 40, 400]
    for number, day in enumerate(days):
        world.send(attached(T, f"T{number}"), at=START + timedelta(days=day - 400, seconds=number))
    world.send(attached("pg://other", "X"), at=START - timedelta(days=399))
    seen, cursor = [], None
    while True:
        page = (await world.asset(T, "/history", limit=2, **({"cursor": cursor} if cursor else {}))).json()
        seen += [item["data"]["tag"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"T{number}" for number in reversed(range(len(days)))]


async def test_without_a_lake_there_is_no_history_yet(world):
    world.send(table(T))
    for name in ("bronze/events", "silver/assets"):
        (world.lake / name / "_delta_log").rename(world.lake / name / "_gone")
    world.api.app.state.lily.get(_reader())._tables._open.clear()
    assert (await world.asset(T, "/history")).json()["items"] == []
    assert (await world.asset(T, as_of="2027-01-01T00:00:00Z")).status_code == 404


def _reader():
    from lily_api.lake.reader import LakeReader

    return LakeReader


async def test_incidents_open_ones_first(world):
    world.send(
        table(T),
        incident(T, "1"),
        incident(T, "2"),
        incident(T, "1", "resolved"),
        incident(T, "3", severity="SEV-1"),
    )
    items = (await world.asset(T, "/incidents")).json()["items"]
    assert [(item["incident_id"], item["open"], item["status"]) for item in items] == [
        ("3", True, "opened"),
        ("2", True, "opened"),
        ("1", False, "resolved"),
    ]
    assert items[0]["severity"] == "SEV-1"
    page = (await world.asset(T, "/incidents", limit=1)).json()
    seen = []
    while page["next_cursor"]:
        seen += [item["incident_id"] for item in page["items"]]
        page = (await world.asset(T, "/incidents", limit=1, cursor=page["next_cursor"])).json()
    assert seen == ["3", "2", "1"]
    world.send(deleted(T), incident(T, "4"))
    assert [i["incident_id"] for i in (await world.asset(T, "/incidents")).json()["items"]] == ["4"]


async def test_an_expired_asset_is_answered_from_the_lake_also_after_it_came_back(world):
    world.send(table(T, name="customers", description="who buys"), attached(T, "PII"))
    assert expire(world.mirror, START + timedelta(days=91)) == {"expired": 1, "purged": 0}
    assert set(world.mirror[ASSETS].find_one({})) == {"_id", "tenant", "qualified_name", "expired", "rev"}
    body = (await world.asset(T)).json()
    assert (body["answered_from"], body["description"]) == ("lake", "who buys")
    world.send(attached(T, "GDPR"))
    assert world.mirror[ASSETS].find_one({})["partial"] is True
    body = (await world.asset(T)).json()
    assert (body["answered_from"], [tag["tag"] for tag in body["tags"]]) == ("lake", ["GDPR", "PII"])


async def test_fields_called_sensitive_are_not_shown_from_the_lake_either(world):
    sensitive = {"sensitive_fields": ["sql"]}
    path = f"/v1/tenants/{world.tenant}"
    answer = await world.api.client.patch(path, json=sensitive, headers=world.api.operator())
    assert answer.status_code == 200
    world.send(table(T, sql="S3CRET"), ("asset.patched", {"qualified_name": T, "set": {"sql": "S3CRET"}}))
    expire(world.mirror, START + timedelta(days=91))
    for answer in (
        await world.asset(T),
        await world.asset(T, as_of="2027-01-01T00:00:00Z"),
        await world.asset(T, "/history"),
    ):
        assert answer.status_code == 200
        assert "S3CRET" not in answer.text


async def test_a_purged_tombstone_takes_what_it_hid_along(world):
    up = "pg://up"
    world.send(table(T), table(up), edge(up, T), incident(T, "1"), deleted(T))
    assert expire(world.mirror, START + timedelta(days=31)) == {"expired": 0, "purged": 1}
    assert (await world.asset(T)).json()["type"] == "urn:lily:problem:unknown-asset"
    assert (await world.asset(up, "/lineage")).json()["edges"] == []
    assert world.mirror["incidents"].count_documents({}) == 0


async def test_without_mongo_the_answer_is_503(world, monkeypatch):
    from pymongo import AsyncMongoClient

    dead = AsyncMongoClient("mongodb://127.0.0.1:1", serverSelectionTimeoutMS=100)
    monkeypatch.setattr(world.api.app.state.lily, "mongo", dead["lily"])
    for path in ("/v1/assets", f"/v1/assets/{T}", f"/v1/assets/{T}/lineage", f"/v1/assets/{T}/incidents"):
        answer = await world.get(path)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    await dead.close()


async def test_the_present_does_not_depend_on_the_clock_of_the_past(world):
    """Accepted today: the history window that begins now holds it."""
    world.send(table(T), at=datetime.now(UTC))
    assert len((await world.asset(T, "/history")).json()["items"]) == 1
