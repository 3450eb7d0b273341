"""Real Kafka, MongoDB and S3 for the jobs, which the tests themselves start, kill and start again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.spark.process import JobProcess
from tests.support.stack import Stack, free_port, running_stack

from lily_local import jars


@pytest.fixture(scope="package")
def servers() -> Iterator[Stack]:
    with running_stack("topics", "mongo", "s3") as running:
        yield running


@pytest.fixture(scope="package")
def job_environment(servers: Stack) -> dict[str, str]:
    return {
        **os.environ,
        **servers.environment,
        "LILY_SPARK_JARS": jars.paths("spark"),
        "LILY_COMPACT_SECONDS": "5",
    }


@pytest.fixture(scope="module")
def lake(job_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobProcess]:
    """A lake job, ready; its checkpoints are the module's own, the tables and topics the session's."""
    folder = tmp_path_factory.mktemp("lake")
    yield from _running("lake", job_environment, folder)


@pytest.fixture(scope="module")
def fanout(job_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobProcess]:
    folder = tmp_path_factory.mktemp("fanout")
    yield from _running("fanout", job_environment, folder)


def _running(job: str, environment: dict[str, str], folder: Path) -> Iterator[JobProcess]:
    process = JobProcess(job, environment, folder, free_port())
    try:
        process.start()
        yield process
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)
