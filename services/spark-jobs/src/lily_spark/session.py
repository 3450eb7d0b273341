"""The one place that builds a SparkSession: every setting of Spark, Delta, S3A and the JVM stands here, with its why."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import INPUT_CONVERTER  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from lily_spark.config import SparkSettings
from lily_spark.storage import logstore

LOG4J = Path(__file__).with_name("log4j2.xml")


@dataclass(frozen=True)
class App:
    """What differs between applications: heap, task slots, and whether tables on S3 are used."""

    name: str
    heap: str
    slots: int
    lake: bool


def build(settings: SparkSettings, app: App) -> SparkSession:
    """Start the JVM and the session. The heap and class path are fixed from here on for the whole process."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers are this Python, with its packages; Spark's own choice is the first `python3` of the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _drop_numpy_converters()
    # Empty until the JVM runs: what is loaded from it stays loaded, so that the folder need not.
    with tempfile.TemporaryDirectory(prefix="lily-classes-") as classes:
        builder = SparkSession.builder.master(f"local[{app.slots}]").appName(app.name)
        options = _core() | _jvm(settings, app, classes) | _streaming()
        if app.lake:
            options |= _delta() | _s3a(settings)
        for key, value in options.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        if app.lake:
            _sign_in(session, settings)
            logstore.load(session, Path(classes))
    return session


def _drop_numpy_converters() -> None:
    """No numpy value ever goes to the JVM from here, and merely asking whether one does imports pandas (90 MB)."""
    INPUT_CONVERTER[:] = [found for found in INPUT_CONVERTER if "Numpy" not in type(found).__name__]


def _sign_in(session: SparkSession, settings: SparkSettings) -> None:
    """S3 keys go in after the start: options of the builder would stand on the JVM's command line."""
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.access.key", settings.s3_access_key.get_secret_value())
    hadoop.set("fs.s3a.secret.key", settings.s3_secret_key.get_secret_value())


def _core() -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        # Small batches: each further partition is one more task to schedule, and one more file or state store.
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "2",
        "spark.sql.adaptive.enabled": "false",
        # A third of the planning time of a small batch, and our plans have no join or filter that gains by it.
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.cleaner.periodicGC.interval": "10min",
        # Readiness asks for running tasks: they must show at once, not with the next heartbeat.
        "spark.ui.liveUpdate.period": "0",
        # Plans and jobs of the past are of use to the UI alone; a job that runs for months would hoard them.
        "spark.sql.ui.retainedExecutions": "5",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.streaming.numRecentProgressUpdates": "8",
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _jvm(settings: SparkSettings, app: App, classes: str) -> dict[str, str]:
    java = [
        # One small heap on few cores: the serial collector needs the least memory and no threads of its own.
        "-XX:+UseSerialGC",
        # The first compiler only: a cold JVM is at speed sooner, and the code cache stays small.
        "-XX:TieredStopAtLevel=1",
        # That alone would get 48 MB of code cache. Spark's generated classes fill it within minutes, and a JVM whose
        # cache is full stops compiling: a compaction then takes ten times as long. What is not used costs nothing.
        "-XX:ReservedCodeCacheSize=192m",
        "-Xss768k",
        "-XX:MaxDirectMemorySize=128m",
        "-XX:+ExitOnOutOfMemoryError",
        "-Duser.timezone=UTC",
        f"-Dlog4j2.configurationFile={LOG4J.as_uri()}",
        f"-Dlily.service={app.name}",
        "-Djdk.nio.maxCachedBufferSize=262144",
    ]
    return {
        "spark.driver.memory": settings.spark_driver_memory or app.heap,
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.driver.extraClassPath": os.pathsep.join([*settings.jars, classes]),
    }


def _streaming() -> dict[str, str]:
    return {
        # Checkpoints on the local disk without forking `chmod` per file: a commit fell from 164 to 25 ms.
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # An empty batch just to let state expire is not worth its cost; the next real one does it.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.pollingDelay": "20ms",
        "spark.sql.streaming.stopTimeout": "30s",
    }


def _delta() -> dict[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Every log store of Delta's own loses commits on S3 when two writers meet: see the class.
        "spark.delta.logStore.s3a.impl": logstore.CLASS,
        # A table's state is small here: fifty partitions of it would cost more than the data.
        "spark.databricks.delta.snapshotPartitions": "1",
        # Deletion vectors off: deltalake and DuckDB readers must read every table.
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
        "spark.databricks.delta.schema.autoMerge.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        "spark.sql.parquet.compression.codec": "zstd",
    }


def _s3a(settings: SparkSettings) -> dict[str, str]:
    secure = settings.s3_endpoint.startswith("https")
    return {
        "spark.hadoop.fs.s3a.endpoint": settings.s3_endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(secure).lower(),
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        ),
        # What the log store asks for: a put that fails when there is such an object by now (Hadoop 3.5).
        "spark.hadoop.fs.s3a.create.conditional.enabled": "true",
        # The upload buffer is as large as a part, per open file; most files here are far smaller than one.
        "spark.hadoop.fs.s3a.fast.upload.buffer": "array",
        "spark.hadoop.fs.s3a.multipart.size": "5M",
        "spark.hadoop.fs.s3a.threads.max": "16",
        "spark.hadoop.fs.s3a.connection.maximum": "32",
        "spark.hadoop.fs.s3a.change.detection.mode": "none",
        "spark.hadoop.fs.s3a.directory.operations.purge.uploads": "false",
        # The SDK's attempts times Hadoop's own retries: as set by default, a store that was away for a second could
        # hold an operation for minutes. Whatever gives up here is begun again by who asked for it.
        "spark.hadoop.fs.s3a.attempts.maximum": "3",
        "spark.hadoop.fs.s3a.retry.limit": "4",
        "spark.hadoop.fs.s3a.retry.interval": "250ms",
    }
