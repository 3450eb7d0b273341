"""Starting the shop's Spark job in its own process, with the unmodified OpenLineage listener pointed at Lily."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lily_local import jars
from lily_local.demo.checks import DemoError
from lily_local.demo.shop import DATABASE, Shop
from lily_local.environment import inherited
from lily_local.java import find as find_java

JOB_NAMESPACE = "shop"
_SHOWN_LINES = 15


@dataclass
class SparkJob:
    """The running job. `log` holds all that it printed."""

    process: subprocess.Popen[bytes]
    log: Path
    marts: Path
    started: float

    def wait(self, seconds: float) -> float:
        """Until it has ended well; seconds from its start. Raises DemoError with the log's end."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise DemoError(
                f"the Spark job did not end within {seconds:.0f} s; its log: {self.log}"
            ) from None
        if code != 0:
            lines = self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
            raise DemoError(f"the Spark job ended with {code} (log: {self.log})\n" + "\n".join(lines))
        return time.monotonic() - self.started

    def stop(self) -> None:
        """End it with its JVM, which is in the same process group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def start(folder: Path, shop: Shop, lily_url: str, api_key: str) -> SparkJob:
    """Start the job; `folder` gets its log, its marts and its properties (readable by the owner only)."""
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "spark.properties"
    properties.touch(mode=0o600)
    properties.write_text(
        "".join(f"{name} {value}\n" for name, value in _properties(lily_url, api_key).items())
    )
    parts = urlsplit(shop.uri)
    marts = folder / "marts"
    environment = {
        **inherited(dict(os.environ)),
        "JAVA_HOME": str(find_java().home),
        # A properties file keeps the key out of the command line, which every user of the machine can read.
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {properties} pyspark-shell",
        "SHOP_JDBC_URL": f"jdbc:postgresql://{parts.hostname}:{parts.port}/{DATABASE}",
        "SHOP_USER": parts.username or "",
        "SHOP_PASSWORD": parts.password or "",
        "SHOP_MARTS": str(marts),
    }
    log = folder / "spark-job.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "lily_local.demo.shop_job"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    return SparkJob(process, log, marts, time.monotonic())


def _properties(lily_url: str, api_key: str) -> dict[str, str]:
    return {
        "spark.master": "local[2]",
        "spark.driver.memory": "512m",
        # One short job: the second compiler would cost more than it brings.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=96m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Adaptive execution makes a job of every stage, each with its own run events: much ado for a small input.
        "spark.sql.adaptive.enabled": "false",
        "spark.jars": f"{jars.paths('openlineage')},{jars.paths('postgres-jdbc')}",
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.namespace": JOB_NAMESPACE,
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": lily_url,
        "spark.openlineage.transport.auth.type": "api_key",
        "spark.openlineage.transport.auth.apiKey": api_key,
    }
