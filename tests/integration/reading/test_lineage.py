"""Walks over the mirror's edges."""

from tests.integration.reading.world import attached, column, deleted, edge, table

from lily_api.lineage import service
from lily_common.documents import EDGES


def names(body):
    return [node["qualified_name"] for node in body["nodes"]]


def pairs(body):
    return sorted((found["upstream"], found["downstream"]) for found in body["edges"])


async def test_directions_and_depth(world):
    world.send(*(table(name) for name in "abcd"), edge("a", "b"), edge("b", "c", via="job"), edge("c", "d"))
    body = (await world.asset("b", "/lineage", depth=1)).json()
    assert (names(body), pairs(body)) == (["b", "a", "c"], [("a", "b"), ("b", "c")])
    assert (body["direction"], body["depth"], body["truncated"]) == ("both", 1, False)
    body = (await world.asset("b", "/lineage", direction="downstream")).json()
    assert [(node["qualified_name"], node["distance"]) for node in body["nodes"]] == [
        ("b", 0),
        ("c", 1),
        ("d", 2),
    ]
    assert [found["via"] for found in body["edges"]] == ["job", None]
    body = (await world.asset("d", "/lineage", direction="upstream", depth=2)).json()
    assert names(body) == ["d", "c", "b"]


async def test_cycles_and_diamonds_end(world):
    world.send(edge("a", "b"), edge("b", "a"), edge("a", "c"), edge("b", "d"), edge("c", "d"), edge("d", "d"))
    body = (await world.asset("a", "/lineage", depth=25)).json()
    assert sorted(names(body)) == ["a", "b", "c", "d"]
    assert len(pairs(body)) == 6


async def test_removed_edges_and_edges_of_deleted_assets_are_gone(world):
    world.send(table("a"), table("b"), edge("a", "b"), edge("b", "c"), edge("b", "x"))
    world.send(("lineage.edge.removed", {"upstream": "b", "downstream": "x"}))
    assert pairs((await world.asset("a", "/lineage")).json()) == [("a", "b"), ("b", "c")]
    world.send(deleted("c"))
    assert pairs((await world.asset("a", "/lineage")).json()) == [("a", "b")]
    world.send(edge("b", "c"))
    assert pairs((await world.asset("a", "/lineage")).json()) == [("a", "b"), ("b", "c")]
    world.send(deleted("a"))
    answer = await world.asset("a", "/lineage")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:lily:problem:asset-deleted")
    assert pairs((await world.asset("c", "/lineage")).json()) == [("b", "c")]


async def test_levels(world):
    world.send(table("t"), column("t/x", parent="t"), column("t/y", parent="t"), attached("t/x", "PII"))
    world.send(
        edge("s", "t"), edge("s/x", "t/x", "column", transformation="IDENTITY"), edge("s/y", "t/y", "column")
    )
    assert pairs((await world.asset("t", "/lineage")).json()) == [("s", "t")]
    assert pairs((await world.asset("t", "/lineage", level="table")).json()) == [("s", "t")]
    body = (await world.asset("t", "/lineage", level="column")).json()
    assert pairs(body) == [("s/x", "t/x"), ("s/y", "t/y")]
    assert {found["transformation"] for found in body["edges"]} == {"IDENTITY", None}
    nodes = {node["qualified_name"]: node for node in body["nodes"]}
    assert (nodes["t/x"]["tags"], nodes["t/x"]["distance"], nodes["s/x"]["asset_type"]) == (["PII"], 0, None)


async def test_an_upstream_that_only_edges_name_has_lineage_too(world):
    world.send(edge("nobody://knows", "b"))
    assert pairs((await world.asset("nobody://knows", "/lineage")).json()) == [("nobody://knows", "b")]
    assert (await world.asset("nothing://at/all", "/lineage")).status_code == 404


async def test_a_wide_graph_is_cut_and_says_so(world, monkeypatch):
    monkeypatch.setattr(service, "MAX_NODES", 5)
    world.send(*(edge("a", f"b{number}") for number in range(9)))
    body = (await world.asset("a", "/lineage")).json()
    assert (len(body["nodes"]), len(body["edges"]), body["truncated"]) == (5, 4, True)
    monkeypatch.setattr(service, "MAX_EDGES", 3)
    body = (await world.asset("a", "/lineage")).json()
    assert (len(body["edges"]), body["truncated"]) == (3, True)


async def test_one_query_for_each_level(world, mirror):
    world.send(*(edge(f"{level}", f"{level + 1}") for level in range(6)))
    mirror.command("profile", 2)
    await world.asset("0", "/lineage", direction="downstream", depth=6)
    mirror.command("profile", 0)
    queries = mirror["system.profile"].count_documents({"ns": f"{mirror.name}.{EDGES}", "op": "query"})
    assert queries == 6


async def test_wrong_parameters(world):
    for params in ({"depth": 0}, {"depth": 26}, {"direction": "sideways"}, {"level": "row"}):
        assert (await world.asset("a", "/lineage", **params)).status_code == 422
