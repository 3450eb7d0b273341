"""Small questions that tell whether a server answers."""

from __future__ import annotations

import socket

from lily_local.environment import HOST


def port_open(port: int) -> bool:
    """Whether something accepts connections on the loopback port."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def http_ok(port: int, path: str) -> bool:
    """Whether GET answers 200."""
    if not port_open(port):
        return False
    import httpx  # slow to load, and the commands load this module

    try:
        return httpx.get(f"http://{HOST}:{port}{path}", timeout=3, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
