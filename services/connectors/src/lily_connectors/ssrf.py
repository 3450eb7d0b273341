"""The guard against server-side request forgery: which addresses Lily may call on a tenant's behalf.

The decision is made on the *resolved* address, by the very code that opens the socket: `Guard.socket_factory` is
called with the address about to be connected to and refuses before a packet is sent. A name that resolves to another
address at the next look-up (DNS rebinding) is therefore checked again, and a literal address is checked like any other.
`Guard.check_url` is the early answer to the user who configures such a URL; it guards nothing by itself.

Refused: everything that is not a public unicast address (private, loopback, link-local, carrier-grade NAT, multicast,
reserved, unspecified, documentation, benchmarking), cloud metadata services on public addresses, and IPv6 addresses
that carry such an IPv4 address (mapped, 6to4, Teredo, NAT64). Plain http reaches only what LILY_EGRESS_ALLOW lists.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: (family, type, protocol, canonical name, socket address), as `getaddrinfo` gives it.
AddrInfo = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]

#: Metadata and host services that clouds put on addresses which are public by their number.
_METADATA: tuple[Network, ...] = (
    ip_network("168.63.129.16/32"),  # Azure WireServer
    ip_network("192.88.99.0/24"),  # 6to4 relays, deprecated (RFC 7526)
    ip_network("192.0.0.0/24"),  # IETF protocol assignments; Oracle's metadata service
)
_NAT64 = ip_network("64:ff9b::/96")
_IPV4_COMPATIBLE = ip_network("::/96")
#: Below 1024 only the web's own ports: the rest belongs to mail, shells, directories and databases.
_LOW_PORTS = frozenset({80, 443})


class BlockedAddressError(OSError):
    """The address is not one that Lily calls. An OSError, so that HTTP clients treat it as a failed connect."""


def embedded_ipv4(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for (mapped, 6to4, Teredo's client, NAT64, compatible), or None."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 0xFFFF):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def is_public(address: Address) -> bool:
    """Whether the address is unicast and globally reachable, and so is the IPv4 address that it may carry."""
    inner = embedded_ipv4(address)
    if inner is not None:
        return is_public(inner) and address in _NAT64  # the other embeddings have no use on the public net
    if address.is_multicast or address.is_reserved or address.is_unspecified or not address.is_global:
        return False
    return not any(address in network for network in _METADATA if network.version == address.version)


@dataclass(frozen=True)
class Guard:
    """`allow` lists networks that are let through beside public addresses, over plain http too."""

    allow: tuple[Network, ...] = field(default=())

    def allowed(self, address: Address) -> bool:
        """Whether the address, or the IPv4 address that it stands for, is on the allow-list."""
        inner = embedded_ipv4(address)
        candidates: Iterable[Address] = (address,) if inner is None else (address, inner)
        return any(
            candidate in network
            for candidate in candidates
            for network in self.allow
            if network.version == candidate.version
        )

    def check(self, host: str, port: int, *, plain: bool) -> None:
        """Raise BlockedAddressError unless `host` (an address literal) and `port` may be connected to."""
        address = ip_address(host.partition("%")[0])  # an IPv6 zone says nothing about reach
        if self.allowed(address):
            return
        if not is_public(address):
            raise BlockedAddressError(f"{address} is not a public address")
        if plain:
            raise BlockedAddressError("plain http is not sent to public addresses; use https")
        if port < 1024 and port not in _LOW_PORTS:
            raise BlockedAddressError(f"port {port} is not one that webhooks use")

    def socket_factory(self, info: AddrInfo, *, plain: bool) -> socket.socket:
        """A socket for `info`, or BlockedAddressError: the last thing that happens before the connect."""
        family, kind, protocol, _, target = info
        if family not in (socket.AF_INET, socket.AF_INET6):
            raise BlockedAddressError("only IPv4 and IPv6 are connected to")
        self.check(str(target[0]), int(target[1]), plain=plain)
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        return opened

    def check_url(self, url: str) -> str | None:
        """What is wrong with a configured URL, as far as it shows without a look-up, or None."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return "is not a URL"
        if parts.scheme not in ("https", "http"):
            return "must be an https URL"
        if not host or any(char.isspace() or ord(char) < 0x20 for char in url):
            return "must be a URL with a host, without white space"
        if parts.username is not None or parts.password is not None:
            return "must not hold a user or password; use the header Authorization"
        if parts.fragment:
            return "must not hold a fragment"
        plain = parts.scheme == "http"
        literal = _literal(host)
        if literal is not None:
            try:
                self.check(literal, port or (80 if plain else 443), plain=plain)
            except BlockedAddressError as blocked:
                return f"points to an address that is not called: {blocked}"
        elif plain and not self.allow:
            return "must be an https URL"
        elif host == "localhost" or host.endswith((".localhost", ".internal", ".local")):
            return None if self.allow else f"points to a name that is not public: {host}"
        return None


def _literal(host: str) -> str | None:
    """The address that `host` denotes without a look-up, old forms such as `127.1` or `0x7f000001` included."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None
