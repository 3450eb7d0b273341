"""Brings `ConditionalLogStore` into the JVM: compiled from its source by Janino, the compiler that Spark carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

SOURCE = Path(__file__).with_name("ConditionalLogStore.java")
CLASS = "lily.storage.ConditionalLogStore"


def load(session: SparkSession, folder: Path) -> None:
    """Compile the class into `folder`, which the JVM was started with on its class path, and load it from there.

    The folder is of no use any more afterwards. Raises py4j's error of a ClassNotFoundException when it is not on the
    class path; a JVM that has the class from an earlier session keeps that one.
    """
    jvm: Any = session.sparkContext._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SOURCE.read_text())
    for name, code in compiler.getBytecodes().items():
        file = folder.joinpath(*name.split(".")).with_suffix(".class")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(code)
    jvm.java.lang.Class.forName(CLASS)
