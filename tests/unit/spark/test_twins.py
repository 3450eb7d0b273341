"""The convergence rule in Spark SQL says what `lily_common.state` says, for whatever events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lily_common.envelope import accept
from lily_common.events import PAYLOADS
from lily_common.state import assemble, event_registers, fold
from lily_spark.transforms.latest import assets_latest
from lily_spark.transforms.registers import newest, registers

START = datetime(2026, 1, 1, tzinfo=UTC)
ASSETS = [f"postgres://shop/public/t{number}" for number in range(3)]

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
names = st.sampled_from(["description", "owners", "name", "data_type", "colour", "größe"])
scalars = texts | st.none()


@st.composite
def payloads(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = draw(st.sampled_from([name for name in PAYLOADS if name != "row.changed"]))
    data: dict[str, Any] = {"qualified_name": draw(st.sampled_from(ASSETS))}
    if kind == "asset.upserted":
        data |= {"asset_type": draw(st.sampled_from(["table", "view"]))}
        data |= draw(st.fixed_dictionaries({}, optional={"name": texts, "description": scalars}))
        data |= draw(
            st.fixed_dictionaries(
                {}, optional={"owners": st.lists(texts, max_size=2), "aspect": st.just("q")}
            )
        )
    elif kind == "asset.patched":
        given_names = draw(st.lists(names, max_size=3, unique=True))
        data["set"] = {
            name: draw(st.lists(texts, max_size=2) if name == "owners" else scalars) for name in given_names
        }
        data["unset"] = draw(st.lists(names, max_size=2))
    elif kind.startswith("classification"):
        data |= {"tag": draw(st.sampled_from(["PII", "GDPR"]))}
        data |= draw(
            st.fixed_dictionaries(
                {},
                optional={"origin": st.sampled_from(["direct", "a|b"]), "origin_kind": st.just("propagated")},
            )
        )
    elif kind.startswith("lineage"):
        data = {"upstream": ASSETS[0], "downstream": draw(st.sampled_from(ASSETS))}
        data |= draw(st.fixed_dictionaries({}, optional={"via": st.just("job://x/y")}))
    elif kind.startswith("incident"):
        data |= {"incident_id": draw(texts), "title": "late"}
    elif kind == "owner.changed":
        data["owners"] = draw(st.lists(texts, max_size=2))
    elif kind == "term.changed":
        data["terms"] = draw(st.lists(texts, max_size=2))
    elif kind == "property.inherited":
        data |= {"property": draw(names), "value": draw(scalars), "origin_kind": "propagated"}
    elif kind == "description.changed":
        data["description"] = draw(scalars)
    return kind, data


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for number, (kind, data) in enumerate(draw(st.lists(payloads(), min_size=1, max_size=12))):
        raw = {
            "specversion": "1.0",
            "id": f"e{number}",
            "source": "urn:t",
            "type": f"lily.{kind}",
            "data": data,
        }
        raw["time"] = (START + timedelta(minutes=draw(st.integers(0, 6)))).isoformat()
        made.append(dict(orjson.loads(accept("acme", raw, START + timedelta(days=1)).value)))
    return made


def _row(event: dict[str, Any]) -> Row:
    return Row(
        tenant=event["tenantid"],
        subject=event["subject"],
        type=event["type"],
        version=event["stateversion"],
        data=orjson.dumps(event["data"]).decode(),
        id=event["id"],
        source=event["source"],
        time=START,
        accepted_time=START,
    )


def _layered(rows: DataFrame) -> DataFrame:
    """The rows as in silver.assets: half of the assets folded into the primary layer, with some of them in both."""
    folded = newest(rows).where("hash(subject) % 2 = 0").withColumn("layer", F.lit("primary"))
    fresh = rows.where("hash(subject) % 4 != 0").withColumn("layer", F.lit("updates"))
    return folded.unionByName(fresh)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(histories())
def test_registers_and_assets_are_those_of_the_rule(
    spark: SparkSession, history: list[dict[str, Any]]
) -> None:
    rows = registers(spark.createDataFrame([_row(event) for event in history])).persist()
    found = {(row["subject"], row["register"], row["version"]) for row in rows.collect()}
    assert found == {
        (event["subject"], key, event["stateversion"]) for event in history for key in event_registers(event)
    }
    by_asset = {
        name: fold(e for e in history if e["subject"] == name) for name in {e["subject"] for e in history}
    }
    kept = {(row["subject"], row["register"]): row["version"] for row in newest(rows).collect()}
    assert kept == {
        (name, key): register.version for name, held in by_asset.items() for key, register in held.items()
    }
    seen = {row["qualified_name"]: row.asDict() for row in assets_latest(_layered(rows)).collect()}
    rows.unpersist()
    for name, held in by_asset.items():
        if not held:
            continue
        state, row = assemble(held), seen[name]
        assert row["deleted"] is state.deleted
        assert row["tags"] == sorted(state.tags)
        assert row["version"] == state.version
        for field in ("asset_type", "name", "description", "owners", "terms"):
            assert row[field] == state.core.get(field), field
