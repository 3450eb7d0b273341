"""What Connect is told of a source, and what a tenant may set."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lily_connectors import registry, vendors
from lily_connectors.debezium import names
from lily_connectors.debezium.settings import Capture, include_list

CAPTURE = Capture("acme", "con_0f3a5c7e9b1d2f4a6c8e0b2d", "10.1.2.3", "${lily:/secrets:con_1.abc}")
KINDS = {name: kind for name, kind in registry.kinds().items() if kind.has_capture}


def given(kind: str, **changes: Any) -> dict[str, Any]:
    folder = Path(vendors.__path__[0]) / kind.replace("-", "_")
    return {**json.loads((folder / "fixtures" / "config.json").read_text()), **changes}


def config(kind: str, **changes: Any) -> Any:
    return registry.kind(kind).config.model_validate(given(kind, **changes))


def settings(kind: str, capture: Capture = CAPTURE, **changes: Any) -> dict[str, str]:
    return registry.kind(kind).capture.connect_settings(config(kind, **changes), capture)


def test_both_kinds_are_in_the_catalogue_as_inbound() -> None:
    assert set(KINDS) == {"debezium-postgres", "debezium-mongodb"}
    assert {(kind.direction, kind.webhook) for kind in KINDS.values()} == {("inbound", False)}


def test_postgres_whole() -> None:
    assert settings("debezium-postgres") == {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "topic.prefix": "cdc.acme.shop",
        "topic.heartbeat.prefix": "lily.cdc-heartbeat",
        "heartbeat.interval.ms": "10000",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "true",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "tombstones.on.delete": "true",
        "skipped.operations": "none",
        "max.queue.size.in.bytes": "33554432",
        "errors.max.retries": "4",
        "retriable.restart.connector.wait.ms": "3000",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "4",
        "topic.creation.default.cleanup.policy": "delete",
        "topic.creation.default.retention.ms": "604800000",
        "topic.creation.groups": "heartbeat",
        "topic.creation.heartbeat.include": r"lily\.cdc\-heartbeat\..*",
        "topic.creation.heartbeat.partitions": "1",
        "topic.creation.heartbeat.retention.ms": "3600000",
        "database.hostname": "10.1.2.3",
        "database.port": "5432",
        "database.dbname": "shop",
        "database.user": "lily",
        "database.password": "${lily:/secrets:con_1.abc}",
        "database.sslmode": "prefer",
        "plugin.name": "pgoutput",
        "slot.name": "lily_shop_9b1d2f4a6c8e0b2d",
        "publication.name": "lily_shop_9b1d2f4a6c8e0b2d",
        "publication.autocreate.mode": "disabled",
        "table.include.list": r"billing\..*,public\.orders",
        "snapshot.mode": "initial",
        "decimal.handling.mode": "precise",
        "time.precision.mode": "adaptive_time_microseconds",
        "interval.handling.mode": "string",
        "unavailable.value.placeholder": "__debezium_unavailable_value",
    }


def test_mongodb_connects_to_the_named_server_only() -> None:
    made = settings("debezium-mongodb", Capture("acme", "con_1", "10.1.2.3", None))
    assert (
        made["mongodb.connection.string"] == "mongodb://10.1.2.3:27017/?directConnection=true&replicaSet=rs0"
    )
    assert made["collection.include.list"] == r"shop\.user_ratings"
    assert made["topic.prefix"] == "cdc.acme.ratings"
    assert made["capture.mode"] == "change_streams_update_full"
    assert "mongodb.password" not in made


def test_mongodb_user() -> None:
    made = settings("debezium-mongodb", user="lily", password="a password", auth_database="shop")
    assert made["mongodb.user"] == "lily"
    assert made["mongodb.password"] == CAPTURE.password
    assert made["mongodb.authsource"] == "shop"


@pytest.mark.parametrize("kind", KINDS)
def test_the_password_is_in_no_setting_and_in_no_text(kind: str) -> None:
    made = config(kind, user="lily", password="hunter2 is secret")
    assert "hunter2" not in str(registry.kind(kind).capture.connect_settings(made, CAPTURE))
    assert "hunter2" not in made.model_dump_json() + repr(made) + str(made)


def test_an_ipv6_address_is_bracketed() -> None:
    six = Capture("acme", "con_1", "2001:db8::1", None)
    assert settings("debezium-postgres", six)["database.hostname"] == "[2001:db8::1]"
    assert "//[2001:db8::1]:27017/" in settings("debezium-mongodb", six)["mongodb.connection.string"]


def test_tls_that_proves_the_name() -> None:
    capture = registry.kind("debezium-postgres").capture
    assert capture.proves_name(config("debezium-postgres", tls="verify-full"))
    assert not capture.proves_name(config("debezium-postgres", tls="require"))
    made = settings("debezium-postgres", tls="verify-full")
    assert made["database.sslfactory"] == "org.postgresql.ssl.DefaultJavaSSLFactory"


def test_patterns_match_whole_names_only() -> None:
    patterns = include_list(["public.orders", "billing.*"]).split(",")

    def taken(name: str) -> bool:  # Debezium matches the whole name
        return any(re.fullmatch(pattern, name) for pattern in patterns)

    assert taken("public.orders")
    assert taken("billing.bills")
    assert not any(map(taken, ("publicXorders", "public.orders_old", "billings.bills", "x.public.orders")))


def test_names_are_legal_and_never_shared() -> None:
    longest = names.slot_name("s" * 40, "con_0f3a5c7e9b1d2f4a6c8e0b2d")
    assert re.fullmatch(r"[a-z0-9_]{1,63}", longest)
    assert names.slot_name("shop", "con_aaaaaaaaaaaaaaaaaaaaaaaa") != names.slot_name(
        "shop", "con_bbbbbbbbbbbbbbbbbbbbbbbb"
    )
    assert names.connector_name("acme", "shop") == "lily.acme.shop"
    assert names.policy_key("acme", "shop") == b"acme|shop"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", "db.example.com/other?socketFactory=x"),
        ("host", "db.example.com:5432"),
        ("host", "db,other"),
        ("host", "${lily:/secrets:con_other.x}"),
        ("host", ""),
        ("database", "shop?socketFactory=org.example.Evil"),
        ("database", "shop/../other"),
        ("database", "${lily:/secrets:con_other.x}"),
        ("user", "${lily:/secrets:con_other.x}"),
        ("user", "li\nly"),
        ("tables", []),
        ("tables", ["orders"]),
        ("tables", ["public.orders,secret.all"]),
        ("tables", ["public.(orders|secret)"]),
        ("tables", ["*.orders"]),
        ("source", "Shop"),
        ("source", "shop.orders"),
        ("source", "s" * 41),
        ("port", 22),
        ("snapshot", "always"),
        ("password", ""),
        ("mirror", {"public.payments": {"columns": ["id"]}}),
        ("mirror", {"public.orders": {"columns": []}}),
        ("mirror", {"public.orders": {"columns": ["id"], "ttl_days": 0}}),
        ("mirror", {"billing.*": {"columns": ["id"]}}),
    ],
)
def test_what_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        config("debezium-postgres", **{field: value})
    assert refused.value.error_count() == 1


def test_a_table_of_a_whole_schema_may_be_mirrored() -> None:
    made = config("debezium-postgres", mirror={"billing.bills": {"columns": ["id"]}})
    assert made.mirror["billing.bills"].ttl_days is None


def test_mongodb_wants_user_and_password_together() -> None:
    with pytest.raises(ValidationError, match="both user and password"):
        config("debezium-mongodb", user="lily")


def test_the_namespace_is_that_of_the_server_unless_given() -> None:
    assert config("debezium-postgres").assets_namespace == "postgres://shop-db.example.com:5432"
    assert config("debezium-postgres", namespace="postgres://shop").assets_namespace == "postgres://shop"
    assert config("debezium-mongodb").assets_namespace == "mongodb://ratings-db.example.com:27017"
