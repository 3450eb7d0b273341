"""Is a port free, and if not, who has it?"""

from __future__ import annotations

import random
import socket

import psutil

from lily_local.config import BLOCK, OFFSETS, StackConfig
from lily_local.environment import HOST
from lily_local.errors import UserError

_EPHEMERAL_FLOOR = 32768
_TEST_FLOOR = 12000


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def check(config: StackConfig, names: list[str]) -> None:
    """Raise UserError naming the first port that is taken, its holder if known, and how to move it."""
    for name in names:
        port = config.port(name)
        if not is_free(port):
            raise UserError(
                f"port {port} ({name}) is taken{_holder_text(port)}; stop that, or choose another: "
                f"--port {name}=NUMBER, or --port-base NUMBER for all"
            )


def free_base() -> int:
    """A base whose whole block is free, below the ports the system gives out by itself."""
    candidates = list(range(_TEST_FLOOR, _EPHEMERAL_FLOOR - BLOCK, BLOCK))
    random.shuffle(candidates)
    for base in candidates:
        if all(is_free(base + offset) for offset in OFFSETS.values()):
            return base
    raise UserError(f"no {BLOCK} free ports in a row between {_TEST_FLOOR} and {_EPHEMERAL_FLOOR}")


def _holder_text(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and tuple(connection.laddr)[1:2] == (port,)
            if listens and connection.pid is not None:
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except (psutil.Error, OSError):  # not ours to see
        pass
    return ""
