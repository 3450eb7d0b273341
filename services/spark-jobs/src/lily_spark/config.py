"""Settings of the Spark jobs: those of every Lily process, and the knobs of the fan-out and lake applications."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field

from lily_common.config import Settings


class SparkSettings(Settings):
    """Durations are in seconds. Every knob has a default that suits two cores and the embedded stack."""

    spark_driver_memory: str = Field(
        "", alias="LILY_SPARK_DRIVER_MEMORY", description="JVM heap; empty: the application's own default"
    )
    fanout_batch_seconds: int = Field(
        10, alias="LILY_FANOUT_BATCH_SECONDS", ge=5, description="Checkpoint interval of a Real-Time query"
    )
    events_trigger_ms: int = Field(500, alias="LILY_EVENTS_TRIGGER_MS", ge=0)
    mirror_trigger_ms: int = Field(50, alias="LILY_MIRROR_TRIGGER_MS", ge=0)
    bulk_mirror_trigger_ms: int = Field(1000, alias="LILY_BULK_MIRROR_TRIGGER_MS", ge=0)
    mirror_tasks: int = Field(
        0,
        alias="LILY_MIRROR_TASKS",
        ge=0,
        description="Python workers that a mirror batch uses, 90 MB each; 0: the driver itself writes it",
    )
    raw_trigger_ms: int = Field(5000, alias="LILY_RAW_TRIGGER_MS", ge=0)
    raw_rows_per_batch: int = Field(
        2_000, alias="LILY_RAW_ROWS_PER_BATCH", ge=1, description="Requests, of up to 8 MB each"
    )
    bulk_rows_per_batch: int = Field(
        10_000, alias="LILY_BULK_ROWS_PER_BATCH", ge=1, description="Bound on bulk rows that a batch may hold"
    )
    priority_rows_per_batch: int = Field(
        20_000, alias="LILY_PRIORITY_ROWS_PER_BATCH", ge=1, description="Guards the heap after a long pause"
    )
    silver_buckets: int = Field(8, alias="LILY_SILVER_BUCKETS", ge=1, description="Fixed once a table exists")
    compact_seconds: int = Field(180, alias="LILY_COMPACT_SECONDS", ge=1)
    compact_files: int = Field(
        400, alias="LILY_COMPACT_FILES", ge=1, description="Compact earlier when this many update files wait"
    )
    compact_bytes: int = Field(
        128 * 1024 * 1024,
        alias="LILY_COMPACT_BYTES",
        ge=1,
        description="Or when they hold so much, in memory",
    )
    cdc_trigger_ms: int = Field(1000, alias="LILY_CDC_TRIGGER_MS", ge=0)
    cdc_rows_per_batch: int = Field(
        10_000, alias="LILY_CDC_ROWS_PER_BATCH", ge=1, description="Bound on rows of change data in a batch"
    )
    cdc_buckets: int = Field(
        4, alias="LILY_CDC_BUCKETS", ge=1, description="Buckets of a new table of change data"
    )
    cdc_bucket_bytes: int = Field(
        64 * 1024 * 1024,
        alias="LILY_CDC_BUCKET_BYTES",
        ge=1,
        description="A table's buckets are doubled when their files are larger than this on average",
    )
    gold_buckets: int = Field(
        8, alias="LILY_GOLD_BUCKETS", ge=1, description="Buckets of a new incremental table"
    )
    gold_incremental_rows: int = Field(
        200_000,
        alias="LILY_GOLD_INCREMENTAL_ROWS",
        ge=1,
        description="Beyond so many changed rows or facts a refresh computes every row",
    )
    optimize_seconds: int = Field(
        900, alias="LILY_OPTIMIZE_SECONDS", ge=1, description="Merge small files of append-only tables"
    )

    bronze_keep_days: int = Field(
        0,
        alias="LILY_BRONZE_KEEP_DAYS",
        ge=0,
        description="Days that bronze.events keeps; 0: this does not count",
    )
    bronze_keep_commits: int = Field(
        0,
        alias="LILY_BRONZE_KEEP_COMMITS",
        ge=0,
        description="Commits that bronze.events keeps; what is older than both leaves; both 0: for ever",
    )
    housekeeping_seconds: int = Field(
        3600, alias="LILY_HOUSEKEEPING_SECONDS", ge=1, description="Each table's VACUUM and log clean-up"
    )
    vacuum_days: float = Field(
        7,
        alias="LILY_VACUUM_DAYS",
        ge=0,
        description="Days that files which no version needs any longer stay",
    )
    log_days: int = Field(
        30,
        alias="LILY_LOG_DAYS",
        ge=1,
        description="Days of a new table's log: how far back its versions can be named",
    )

    erase_grace_seconds: float = Field(
        60,
        alias="LILY_ERASE_GRACE_SECONDS",
        ge=2,
        description="How long a reader may go on with files that an erasure has replaced; longer than a batch takes",
    )
    erase_oplog_bytes: int = Field(
        512 * 1024 * 1024,
        alias="LILY_ERASE_OPLOG_BYTES",
        ge=0,
        description="An oplog of at most this size is filled up, so that what was erased leaves it at once",
    )
    erase_volumes_url: str = Field(
        "",
        alias="LILY_ERASE_VOLUMES_URL",
        description="Called when files have been removed, e.g. SeaweedFS's /vol/vacuum?garbageThreshold=0.0001",
    )

    def checkpoint(self, *parts: str) -> Path:
        """Absolute local folder of one query's checkpoint, e.g. `checkpoint("fanout", "a")`."""
        return self.checkpoint_dir.absolute().joinpath(*parts)

    @property
    def jars(self) -> list[str]:
        """Paths of the extra jars: LILY_SPARK_JARS holds them, comma-separated, or names folders of them."""
        found: list[str] = []
        for part in filter(None, (piece.strip() for piece in self.spark_jars.split(","))):
            path = Path(part)
            found += sorted(str(jar) for jar in path.glob("*.jar")) if path.is_dir() else [part]
        return found


@lru_cache(maxsize=1)
def spark_settings() -> SparkSettings:
    """The process's settings, read once."""
    return SparkSettings()
