"""Telling the lake job of sources: the compacted topic `lily.cdc-sources`, keyed `tenant|source`."""

from __future__ import annotations

import orjson

from lily_api.capture.models import CaptureSource
from lily_common.events import CDC_SOURCES_TOPIC
from lily_common.kafka import Record
from lily_connectors.debezium.config import SourceConfig
from lily_connectors.debezium.names import policy_key


def record(source: CaptureSource, config: SourceConfig) -> Record:
    """What the lake job may do with the source's tables."""
    value = {
        "tenant": source.tenant,
        "source": source.source,
        "connector_id": source.connector_id,
        "kind": source.kind,
        "namespace": config.assets_namespace,
        "database": getattr(config, "database", None),
        "mirror": {name: table.model_dump() for name, table in sorted(config.mirror.items())},
    }
    return Record(CDC_SOURCES_TOPIC, policy_key(source.tenant, source.source), orjson.dumps(value))


def tombstone(source: CaptureSource) -> Record:
    """The source is gone."""
    return Record(CDC_SOURCES_TOPIC, policy_key(source.tenant, source.source), None)
