"""Where a source may be: the tenant's host, resolved and judged by the guard that egress is under.

Connect opens the connection, not Lily, so the guard cannot stand at the socket. Connect is therefore given the address
that was judged, not the name: a name that resolves to another address later is judged again before it is used.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, ip_address

from lily_connectors.ssrf import BlockedAddressError, Guard


async def judged_address(guard: Guard, host: str, port: int) -> str:
    """The address to connect to, as a literal; IPv4 before IPv6, else the resolver's order.

    Raises BlockedAddressError when the name resolves to any address that is not connected to, and OSError when it
    does not resolve.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ip_address(str(item[4][0]).partition("%")[0]) for item in found]
    if not addresses:
        raise OSError(f"{host} has no address")
    for address in addresses:
        if not guard.allowed(address):
            guard.check(str(address), port, plain=False)
    return str(min(addresses, key=lambda address: not isinstance(address, IPv4Address)))


def problem(error: OSError, host: str) -> str:
    """What to tell the tenant."""
    if isinstance(error, BlockedAddressError):
        return f"{host} is not an address that is connected to: {error}"
    return f"{host} cannot be resolved"
