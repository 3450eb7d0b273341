"""The guard: by address, by URL, and at the moment of the connect."""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from pytest_httpserver import HTTPServer

from lily_connectors.contract import HttpRequest
from lily_connectors.sinks.http import GuardedHttp
from lily_connectors.ssrf import BlockedAddressError, Guard, is_public

BLOCKED = [
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "169.254.170.2",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "2001:db8::1",
    "100::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "::10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", BLOCKED)
def test_blocked(address: str) -> None:
    assert not is_public(ip_address(address))
    with pytest.raises(BlockedAddressError):
        Guard().check(address, 443, plain=False)


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    Guard().check(address, 443, plain=False)
    with pytest.raises(BlockedAddressError, match="https"):
        Guard().check(address, 80, plain=True)


def test_allow_list_lets_through_what_it_names_and_nothing_else() -> None:
    guard = Guard((ip_network("127.0.0.0/8"),))
    guard.check("127.0.0.1", 8080, plain=True)
    guard.check("::ffff:127.0.0.1", 8080, plain=True)
    guard.check("127.0.0.1", 22, plain=True)
    for address in ("10.0.0.1", "::1", "169.254.169.254"):
        with pytest.raises(BlockedAddressError):
            guard.check(address, 443, plain=False)


def test_ports() -> None:
    for port in (443, 80, 1024, 8443, 65535):
        Guard().check("8.8.8.8", port, plain=False)
    for port in (22, 25, 389, 445, 0):
        with pytest.raises(BlockedAddressError, match="port"):
            Guard().check("8.8.8.8", port, plain=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/x",
        "ftp://example.com/x",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "https://user:pw@example.com/",
        "https://example.com/#f",
        "https://exa mple.com/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://[fe80::1%25eth0]/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/",
        "https://metadata.google.internal/",
        "https://8.8.8.8:22/",
        "https://example.com:99999/",
        "https://[::1/",
        "nonsense",
    ],
)
def test_wrong_urls_are_refused_early(url: str) -> None:
    assert Guard().check_url(url) is not None


@pytest.mark.parametrize(
    "url",
    ["https://example.com/x?y=1", "https://8.8.8.8/", "https://example.com:8443/", "HTTPS://EXAMPLE.com/"],
)
def test_right_urls_pass(url: str) -> None:
    assert Guard().check_url(url) is None


def test_allowed_urls() -> None:
    guard = Guard((ip_network("127.0.0.0/8"),))
    assert guard.check_url("http://127.0.0.1:9000/hook") is None
    assert guard.check_url("http://localhost:9000/hook") is None
    assert guard.check_url("http://10.0.0.1/") is not None
    assert guard.check_url("http://8.8.8.8/") is not None


class ChangingResolver(AbstractResolver):
    """A name server under the attacker's control: another address at each look-up."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.asked = 0

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        address = self.addresses[min(self.asked, len(self.addresses) - 1)]
        self.asked += 1
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
        ]

    async def close(self) -> None: ...


async def post(guard: Guard, url: str, resolver: AbstractResolver | None = None) -> Any:
    async with GuardedHttp(guard, resolver=resolver) as http:
        return await http.post(HttpRequest(url, {}, b"{}"), within=3)


async def test_a_name_that_points_inwards_is_not_connected_to(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data("secret")
    resolver = ChangingResolver("127.0.0.1")
    outcome = await post(Guard(), f"https://innocent.example:{httpserver.port}/", resolver)
    assert not outcome.ok
    assert outcome.error == "address refused: 127.0.0.1 is not a public address"
    assert resolver.asked == 1
    assert not httpserver.log


async def test_rebinding_between_two_posts_is_refused(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data("ok", headers={"Connection": "close"})
    guard = Guard((ip_network("127.0.0.1/32"),))
    resolver = ChangingResolver("127.0.0.1", "127.0.0.2", "10.0.0.1")
    async with GuardedHttp(guard, resolver=resolver) as http:
        request = HttpRequest(f"http://innocent.example:{httpserver.port}/", {}, b"{}")
        first = await http.post(request, within=3)
        http._sessions["http"].connector.clear_dns_cache()  # type: ignore[union-attr]
        second = await http.post(request, within=3)
    assert first.ok, first
    assert second.error == "address refused: 127.0.0.2 is not a public address"
    assert len(httpserver.log) == 1


async def test_literal_addresses_are_checked_at_the_connect(httpserver: HTTPServer) -> None:
    outcome = await post(Guard(), f"http://127.0.0.1:{httpserver.port}/")
    assert outcome.error == "address refused: 127.0.0.1 is not a public address"
    assert not httpserver.log


async def test_redirects_are_not_followed(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data(
        "", status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"}
    )
    outcome = await post(Guard((ip_network("127.0.0.0/8"),)), httpserver.url_for("/"))
    assert (outcome.ok, outcome.status_code) == (False, 302)
    assert len(httpserver.log) == 1
