"""What Connect is told of a PostgreSQL source. Pure."""

from __future__ import annotations

from lily_connectors.debezium import names
from lily_connectors.debezium.settings import Capture, common, include_list
from lily_connectors.vendors.debezium_postgres.config import Config

#: What stands in an event for a large value that an update did not touch.
UNAVAILABLE = "__debezium_unavailable_value"


def proves_name(config: Config) -> bool:
    """Whether TLS proves that the server is the one that was named, so that its name need not be resolved before."""
    return config.tls == "verify-full"


def connect_settings(config: Config, capture: Capture) -> dict[str, str]:
    """The connector's whole configuration on Connect."""
    slot = names.slot_name(config.source, capture.connector_id)
    settings = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        **common(capture.tenant, config.source),
        "database.hostname": f"[{capture.address}]" if ":" in capture.address else capture.address,
        "database.port": str(config.port),
        "database.dbname": config.database,
        "database.user": config.user,
        "database.password": capture.password or "",
        "database.sslmode": config.tls,
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": slot,
        # Lily makes it: see lily_api.capture.databases.
        "publication.autocreate.mode": "disabled",
        "table.include.list": include_list(config.tables),
        "snapshot.mode": config.snapshot,
        "decimal.handling.mode": "precise",
        "time.precision.mode": "adaptive_time_microseconds",
        "interval.handling.mode": "string",
        "unavailable.value.placeholder": UNAVAILABLE,
    }
    if proves_name(config):
        settings["database.sslfactory"] = "org.postgresql.ssl.DefaultJavaSSLFactory"
    return settings
