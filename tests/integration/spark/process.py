"""A Spark job as a process of the tests' own: started, asked, killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
from tests.support.poll import until


class JobProcess:
    """`python -m lily_spark <job>` with checkpoints and log in `folder`."""

    def __init__(self, job: str, environment: dict[str, str], folder: Path, port: int) -> None:
        self.job = job
        self.checkpoints = folder / "checkpoints"
        self.log = folder / "log"
        self._url = f"http://127.0.0.1:{port}"
        self._environment = {
            **environment,
            "LILY_METRICS_PORT": str(port),
            "LILY_CHECKPOINT_DIR": str(self.checkpoints),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lily_spark", self.job],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(self._ready, f"{self.job} to be ready", deadline=240)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def kill(self) -> None:
        """SIGKILL, to the process and its JVM."""
        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        for victim in [*parent.children(recursive=True), parent]:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        self._process.wait(30)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that carry `labels`."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = httpx.get(f"{self._url}/metrics", timeout=5).text.splitlines()
        found = [line for line in lines if line.startswith(name + "{") and all(w in line for w in wanted)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
            raise AssertionError(f"{self.job} ended with {self._process.returncode}:\n{tail}")
        try:
            return httpx.get(f"{self._url}/readyz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False
