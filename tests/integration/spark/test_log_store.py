"""Delta's log on S3: of several writers of one version one wins, and every other is told."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from tests.support.spark import end
from tests.support.stack import Stack

from lily_local import jars
from lily_spark import session
from lily_spark.config import SparkSettings

pytestmark = pytest.mark.stack
ROUNDS = 10

#: Writes a version's lines: (file, lines, overwrite) -> whether it did.
Write = Callable[[str, list[str], bool], bool]


@pytest.fixture(scope="module")
def settings(servers: Stack) -> SparkSettings:
    return SparkSettings.model_validate({**servers.environment, "LILY_SPARK_JARS": jars.paths("spark")})


@pytest.fixture(scope="module")
def spark(settings: SparkSettings) -> Iterator[SparkSession]:
    built = session.build(settings, session.App("log-store-test", heap="512m", slots=2, lake=True))
    yield built
    end(built)


@pytest.fixture
def folder(settings: SparkSettings) -> str:
    return settings.lake_table(f"log-store-{secrets.token_hex(4)}")


@dataclass(frozen=True)
class LogStore:
    """The log store in its JVM, and the configuration that each of its methods takes."""

    jvm: Any
    hadoop: Any
    store: Any

    def path(self, file: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(file)


@pytest.fixture(scope="module")
def log_store(spark: SparkSession) -> LogStore:
    jvm: Any = spark.sparkContext._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    return LogStore(jvm, hadoop, jvm.lily.storage.ConditionalLogStore(hadoop))


@pytest.fixture
def write(log_store: LogStore) -> Write:
    def write(file: str, lines: list[str], overwrite: bool) -> bool:
        try:
            log_store.store.write(
                log_store.path(file),
                log_store.jvm.java.util.ArrayList(lines).iterator(),
                overwrite,
                log_store.hadoop,
            )
        except Py4JJavaError as failed:
            assert failed.java_exception.getClass().getName() == "java.nio.file.FileAlreadyExistsException"
            return False
        return True

    return write


@pytest.fixture(scope="module")
def client(settings: SparkSettings) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=settings.s3_endpoint,
        aws_access_key_id=settings.s3_access_key.get_secret_value(),
        aws_secret_access_key=settings.s3_secret_key.get_secret_value(),
        region_name="us-east-1",
    )


@pytest.fixture
def write_by_another_client(client: Any) -> Write:
    def write(file: str, lines: list[str], overwrite: bool) -> bool:
        assert not overwrite
        bucket, key = file.removeprefix("s3a://").split("/", 1)
        body = "".join(f"{line}\n" for line in lines).encode()
        try:
            client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
        except ClientError as refused:
            assert refused.response["Error"]["Code"] == "PreconditionFailed"
            return False
        return True

    return write


@pytest.fixture
def listed(log_store: LogStore) -> Callable[[str], list[tuple[str, int]]]:
    """(file) -> the names and bytes of those beside it from it on."""

    def listed(file: str) -> list[tuple[str, int]]:
        found = log_store.store.listFrom(log_store.path(file), log_store.hadoop)
        statuses = []
        while found.hasNext():
            statuses.append(found.next())
        assert all(status.isFile() and status.getModificationTime() > 0 for status in statuses)
        assert all(status.getPath().getParent().toString() == file.rpartition("/")[0] for status in statuses)
        return [(status.getPath().getName(), status.getLen()) for status in statuses]

    return listed


def _lines(spark: SparkSession, file: str) -> list[str]:
    return [row[0] for row in spark.read.text(file).collect()]


def test_of_writers_that_meet_one_wins(
    spark: SparkSession, folder: str, write: Write, write_by_another_client: Write
) -> None:
    """Two drivers and a client of another kind, as deltalake is, all write the same version at once."""
    writers = {"first": write, "second": write, "other": write_by_another_client}
    with ThreadPoolExecutor(3) as pool:
        for number in range(ROUNDS):
            file = f"{folder}/{number:020d}.json"
            tries = {who: pool.submit(put, file, [who], False) for who, put in writers.items()}
            winners = [who for who, done in tries.items() if done.result()]
            assert len(winners) == 1
            assert _lines(spark, file) == winners


def test_an_attempt_made_again_after_its_answer_was_lost_has_succeeded(
    spark: SparkSession, folder: str, write: Write
) -> None:
    file = f"{folder}/0.json"
    assert write(file, ["one", "two"], False)
    assert write(file, ["one", "two"], False)
    assert not write(file, ["one"], False)
    assert _lines(spark, file) == ["one", "two"]
    assert write(file, ["three"], True)
    assert _lines(spark, file) == ["three"]


def test_files_are_listed_from_a_name_on(
    client: Any, folder: str, listed: Callable[[str], list[tuple[str, int]]]
) -> None:
    """More than the 1,000 names of a page, in order; no folder beside them, nothing in it."""
    bucket, key = folder.removeprefix("s3a://").split("/", 1)
    names = [f"{number:020d}.json" for number in range(1_005)]
    names[1:1] = ["00000000000000000000.v2.checkpoint.json"]
    with ThreadPoolExecutor(8) as pool:
        beside = ["_sidecars/1.parquet", "00000000000000000003/x"]
        for done in [
            pool.submit(
                client.put_object, Bucket=bucket, Key=f"{key}/{name}", Body=b"x" * (1 + len(name) % 7)
            )
            for name in names + beside
        ]:
            done.result()
    expected = [(name, 1 + len(name) % 7) for name in names]
    assert listed(f"{folder}/00000000000000000000.") == expected
    assert listed(f"{folder}/00000000000000000000.json") == expected
    assert listed(f"{folder}/00000000000000000000.k") == expected[1:]
    assert listed(f"{folder}/00000000000000001003.") == expected[-2:]
    assert listed(f"{folder}/00000000000000001005.") == []
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        listed(f"{folder}-that-is-not/00000000000000000000.")
