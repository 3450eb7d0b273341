"""What a source's things are called: in Kafka, in Connect, in the database. They follow from tenant, source and id alone."""

from __future__ import annotations

#: PostgreSQL's longest identifier.
_IDENTIFIER = 63
HEARTBEAT_PREFIX = "lily.cdc-heartbeat"


def connector_name(tenant: str, source: str) -> str:
    """The name on Connect. Tenants and sources hold no dot, so that two never share one."""
    return f"lily.{tenant}.{source}"


def topic_prefix(tenant: str, source: str) -> str:
    """Debezium appends `.<schema>.<table>`, for MongoDB `.<database>.<collection>`."""
    return f"cdc.{tenant}.{source}"


def slot_name(source: str, connector_id: str) -> str:
    """The replication slot, and the publication too: lower case, digits and `_`.

    It bears the connector's id: a source that is made again, or another Lily, never meets the slot of an older one.
    """
    tail = connector_id.rpartition("_")[2][-16:].lower()
    return f"lily_{source[: _IDENTIFIER - len(tail) - 6]}_{tail}"


def policy_key(tenant: str, source: str) -> bytes:
    """Key on `lily.cdc-sources`."""
    return f"{tenant}|{source}".encode()
