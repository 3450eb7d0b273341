"""Brings `ConditionalLogStore` into the JVM: compiled from its source by Janino, the compiler that Spark carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

SOURCE = Path(__file__).with_name("ConditionalLogStore.java")
CLASS = "lily.storage.ConditionalLogStore"


def load(session: SparkSession, folder: Path) -> None:
    """Compile the class into `folder`, which the JVM was started with on its class path, and load it from there.

    The folder is of no use any more afterwards. Raises RuntimeError when the class cannot be loaded.
    """
    jvm: Any = session.sparkContext._jvm
    if _known(jvm):
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SOURCE.read_text())
    for name, code in compiler.getBytecodes().items():
        file = folder.joinpath(*name.split(".")).with_suffix(".class")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(code)
    if not _known(jvm):
        raise RuntimeError(f"{CLASS} cannot be loaded: {folder} is not on the JVM's class path")


def _known(jvm: Any) -> bool:
    try:
        jvm.java.lang.Class.forName(CLASS)
    except Py4JJavaError:
        return False
    return True
