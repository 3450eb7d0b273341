"""A Spark of the lake job's kind, on a lake in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.spark import end

from lily_local import jars
from lily_spark import session
from lily_spark.config import SparkSettings


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    settings = SparkSettings.model_validate({"LILY_SPARK_JARS": jars.paths("spark")})
    built = session.build(settings, session.App("gold-test", heap="768m", slots=2, lake=True))
    yield built
    end(built)


@pytest.fixture
def settings(tmp_path: Path) -> SparkSettings:
    return SparkSettings.model_validate({"LAKE_URI": str(tmp_path / "lake"), "LILY_GOLD_BUCKETS": 2})
