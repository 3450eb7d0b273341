"""One application per checkpoint folder: a file lock that the JVM holds, because the JVM is what writes.

After a kill -9 of the Python process its JVM may live on for a moment and finish a batch. A lock held by Python
would be free by then; this one is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from lily_common.logs import get_logger
from lily_spark.runtime.kafka import StoppedError

log = get_logger(__name__)

#: An unreferenced file would be closed by the JVM's collector, and its lock with it.
_held: list[JavaObject] = []


def hold(spark: SparkSession, path: Path, stopping: Callable[[], bool]) -> None:
    """Take the lock at `path` for the life of the JVM; wait while another JVM has it.

    Raises StoppedError when `stopping()` turns true before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    jvm: Any = spark.sparkContext._jvm
    handle = jvm.java.io.RandomAccessFile(str(path), "rw")
    said = False
    while not stopping():
        lock = handle.getChannel().tryLock()
        if lock is not None:
            _held.extend((handle, lock))
            return
        if not said:
            log.warning("waiting for the previous application to end", lock=str(path))
            said = True
        time.sleep(0.1)
    raise StoppedError
