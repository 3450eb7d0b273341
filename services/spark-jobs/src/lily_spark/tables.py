"""The Delta tables of the lake: name, columns, partitions and properties. The one place that creates them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lily_common.config import Settings
from lily_spark.config import SparkSettings


@dataclass(frozen=True)
class Table:
    """`stats` names the columns whose least and greatest value each file records."""

    name: str
    schema: pa.Schema
    partitions: tuple[str, ...]
    stats: tuple[str, ...]
    properties: dict[str, str] = field(default_factory=dict)

    def uri(self, settings: Settings) -> str:
        """Where Spark finds it (`s3a://…`)."""
        return settings.lake_table(self.name)

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)


COMMON_PROPERTIES = {
    # Every commit of a stream is small: a checkpoint of the log each ten of them would be the dearer.
    "delta.checkpointInterval": "100",
    # Readers other than Spark (deltalake, DuckDB) must read every table.
    "delta.enableDeletionVectors": "false",
}
_TEXT, _TIME = pa.string(), pa.timestamp("us", "UTC")

#: Every accepted event, each identity once, for all time (or as long as retention says). `date` is that of
#: acceptance. `commit` numbers the append that brought the row: it only grows, also when the identity index is built
#: anew, and stays with the row when files are merged, so that (commit, topic, partition, offset) is the one order in
#: which the stream is read again.
EVENTS = Table(
    "bronze/events",
    pa.schema(
        {
            "tenant": _TEXT,
            "date": pa.date32(),
            "id": _TEXT,
            "source": _TEXT,
            "type": _TEXT,
            "subject": _TEXT,
            "time": _TIME,
            "accepted_time": _TIME,
            "lane": _TEXT,
            "version": _TEXT,
            "event": _TEXT,
            "topic": _TEXT,
            "partition": pa.int32(),
            "offset": pa.int64(),
            "kafka_time": _TIME,
            "commit": pa.int64(),
        }
    ),
    ("date", "tenant"),
    ("id", "source", "type", "subject", "time", "accepted_time", "version", "commit"),
    COMMON_PROPERTIES,
)
#: Every request as it came, at least once.
RAW = Table(
    "bronze/raw",
    pa.schema(
        {
            "request_id": _TEXT,
            "tenant": _TEXT,
            "date": pa.date32(),
            "received_time": _TIME,
            "path": _TEXT,
            "headers": pa.map_(_TEXT, _TEXT),
            "body": pa.binary(),
        }
    ),
    ("date", "tenant"),
    ("request_id", "received_time"),
    COMMON_PROPERTIES,
)
#: The newest value of each register: an `updates` layer of small appends over a `primary` layer in static hash
#: buckets of (tenant, subject). A register may stand in both, and more than once in `updates`: the greatest version
#: is the one that holds. Read it through `assets_latest`.
ASSETS = Table(
    "silver/assets",
    pa.schema(
        {
            "tenant": _TEXT,
            "subject": _TEXT,
            "register": _TEXT,
            "type": _TEXT,
            "version": _TEXT,
            "data": _TEXT,
            "event_id": _TEXT,
            "source": _TEXT,
            "time": _TIME,
            "accepted_time": _TIME,
            "layer": _TEXT,
            "bucket": pa.int32(),
        }
    ),
    ("layer", "bucket"),
    ("tenant", "subject", "register", "version", "accepted_time"),
    COMMON_PROPERTIES | {"delta.enableChangeDataFeed": "true"},
)
#: What events that are no longer kept came to: the newest of each register that they wrote.
PAST = Table(
    "silver/past",
    pa.schema([field for field in ASSETS.schema if field.name not in ("layer", "bucket")]),
    ("tenant",),
    ("subject", "register", "version", "accepted_time"),
    COMMON_PROPERTIES,
)
ALL = (EVENTS, RAW, ASSETS, PAST)

#: Transaction application whose version, in the log of bronze.events, is the number of the last commit: it outlives the
#: rows, the files and the identity index.
COMMITS = "lily/events/commit"


def storage_options(settings: Settings) -> dict[str, str]:
    """How the deltalake library reaches the lake: commits by conditional put, so that no writer loses one."""
    if not settings.lake_uri.startswith("s3"):
        return {}
    return {
        "AWS_ENDPOINT_URL": settings.s3_endpoint,
        "AWS_ALLOW_HTTP": str(settings.s3_endpoint.startswith("http://")).lower(),
        "AWS_ACCESS_KEY_ID": settings.s3_access_key.get_secret_value(),
        "AWS_SECRET_ACCESS_KEY": settings.s3_secret_key.get_secret_value(),
        "AWS_REGION": "us-east-1",
        "aws_conditional_put": "etag",
        # A store that was away for a moment is asked again by whoever was at work, not for minutes by the client.
        "connect_timeout": "3s",
        "timeout": "30s",
        "max_retries": "10",
        "retry_timeout": "15s",
    }


def open_table(table: Table, settings: SparkSettings) -> DeltaTable:
    """The table for the deltalake library, created first when it is missing."""
    return DeltaTable.create(
        table.uri(settings).replace("s3a://", "s3://", 1),
        schema=table.schema,
        mode="ignore",
        partition_by=list(table.partitions),
        configuration={
            **table.properties,
            "delta.dataSkippingStatsColumns": ",".join(table.stats),
            "delta.logRetentionDuration": f"interval {settings.log_days} days",
        },
        storage_options=storage_options(settings),
        raise_if_key_not_exists=False,  # properties of our own stand beside Delta's
    )


def spark_schema(spark: SparkSession, table: Table) -> StructType:
    """The table's columns as Spark sees them."""
    return spark.createDataFrame(table.schema.empty_table()).schema
