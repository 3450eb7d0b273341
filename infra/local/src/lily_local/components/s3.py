"""SeaweedFS: the object store of the lake, one process with its S3 door on loopback."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from lily_local.components.model import Component, Context
from lily_local.components.probes import http_ok, port_open
from lily_local.environment import BUCKET, HOST
from lily_local.errors import UserError
from lily_local.files import write_atomic


def _weed() -> str:
    """The program that the wheel puts beside Python."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise UserError("the program `weed` is missing: install lily-local with its dependencies")
    return found


def _keys_file(context: Context) -> Path:
    return context.config.run / "s3.json"


def _prepare(context: Context) -> None:
    context.config.data("s3").mkdir(parents=True, exist_ok=True)
    key = {"accessKey": context.secrets.s3_access_key, "secretKey": context.secrets.s3_secret_key}
    identity = {
        "name": "lily",
        "credentials": [key],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"],
    }
    write_atomic(_keys_file(context), json.dumps({"identities": [identity]}))


def _command(context: Context) -> list[str]:
    port = context.config.port
    values = {
        "dir": context.config.data("s3"),
        "ip": HOST,
        "ip.bind": HOST,
        "master.port": port("s3-master"),
        "master.port.grpc": port("s3-master-grpc"),
        "master.volumeSizeLimitMB": 512,
        "master.electionTimeout": "1s",
        "master.telemetry": "false",
        "volume.port": port("s3-volume"),
        "volume.port.grpc": port("s3-volume-grpc"),
        "volume.max": 0,  # as many as the disk holds
        "volume.preStopSeconds": 0,  # nobody to tell before stopping
        "filer": "true",
        "filer.port": port("s3-filer"),
        "filer.port.grpc": port("s3-filer-grpc"),
        "s3": "true",
        "s3.port": port("s3"),
        "s3.port.grpc": port("s3-grpc"),
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.config": _keys_file(context),
    }
    return [_weed(), "-logtostderr=true", "server", *(f"-{name}={value}" for name, value in values.items())]


def _ready(context: Context) -> bool:
    """Whether objects can be read and the bucket is there; makes it (a folder of the filer) if not."""
    if not http_ok(context.config.port("s3"), "/healthz"):
        return False
    filer = context.config.port("s3-filer")
    if not port_open(filer):
        return False
    import httpx  # slow to load, and the commands load this module

    # Started again, the door opens seconds before the volumes are known, and what they hold cannot be read until then.
    topology = httpx.get(
        f"http://{HOST}:{context.config.port('s3-master')}/dir/status", timeout=5, trust_env=False
    )
    if topology.status_code != 200 or not topology.json().get("Topology", {}).get("Max"):
        return False
    bucket = f"http://{HOST}:{filer}/buckets/{BUCKET}/"
    if httpx.head(bucket, timeout=5, trust_env=False).status_code == 200:
        return True
    httpx.post(bucket, timeout=10, trust_env=False).raise_for_status()
    return True


S3 = Component(
    name="s3",
    command=_command,
    prepare=_prepare,
    ready=_ready,
    # Go gives memory back to the system late; these make it keep close to what it uses.
    env=lambda _: {"GOMEMLIMIT": "320MiB", "GOGC": "50"},
    # Its filer waits ten seconds for streams that its own S3 door holds open. Every write is in the files by then,
    # so that ending it by force loses nothing.
    stop_timeout=1.5,
    ports=(
        "s3",
        "s3-master",
        "s3-volume",
        "s3-filer",
        "s3-grpc",
        "s3-master-grpc",
        "s3-volume-grpc",
        "s3-filer-grpc",
    ),
)
