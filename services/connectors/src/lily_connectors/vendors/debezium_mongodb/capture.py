"""What Connect is told of a MongoDB source. Pure."""

from __future__ import annotations

from lily_connectors.debezium.settings import Capture, common, include_list
from lily_connectors.vendors.debezium_mongodb.config import Config

_SELECTION_MS = 10_000


def proves_name(config: Config) -> bool:
    """Whether TLS proves that the server is the one that was named, so that its name need not be resolved before."""
    return config.tls


def connect_settings(config: Config, capture: Capture) -> dict[str, str]:
    """The connector's whole configuration on Connect."""
    host = f"[{capture.address}]" if ":" in capture.address else capture.address
    # Direct: the driver would otherwise go wherever the server says that its replica set is.
    options = "directConnection=true" + (f"&replicaSet={config.replica_set}" if config.replica_set else "")
    settings = {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        **common(capture.tenant, config.source),
        "mongodb.connection.string": f"mongodb://{host}:{config.port}/?{options}",
        "mongodb.ssl.enabled": str(config.tls).lower(),
        "mongodb.server.selection.timeout.ms": str(_SELECTION_MS),
        "collection.include.list": include_list(config.collections),
        "snapshot.mode": config.snapshot,
        # The whole document with every update.
        "capture.mode": "change_streams_update_full",
    }
    if config.user is not None and capture.password is not None:
        settings |= {
            "mongodb.user": config.user,
            "mongodb.password": capture.password,
            "mongodb.authsource": config.auth_database,
        }
    return settings
