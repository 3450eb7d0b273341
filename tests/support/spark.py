"""Ends a Spark session with its JVM: the next one in this process gets a class path and a heap of its own."""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession


def end(session: SparkSession) -> None:
    """`stop` alone leaves the JVM, and a later session would have to live with the jars that it was started with."""
    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM ends when what started it no longer holds this
        gateway.proc.wait(timeout=30)
    SparkContext._gateway = None
    SparkContext._jvm = None
