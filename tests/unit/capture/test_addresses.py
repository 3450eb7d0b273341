"""Where a source may be."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from lily_api.capture.addresses import judged_address, problem
from lily_connectors.ssrf import BlockedAddressError, Guard


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "::1", "168.63.129.16"]
)
async def test_what_is_not_public_is_refused(host: str) -> None:
    with pytest.raises(BlockedAddressError) as refused:
        await judged_address(Guard(), host, 5432)
    assert "is not an address that is connected to" in problem(refused.value, host)


async def test_the_allow_list_lets_through_and_the_address_is_a_literal() -> None:
    guard = Guard((ip_network("127.0.0.0/8"), ip_network("::1/128")))
    assert await judged_address(guard, "localhost", 5432) == "127.0.0.1"
    assert await judged_address(Guard(), "8.8.8.8", 5432) == "8.8.8.8"


async def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(OSError) as unknown:
        await judged_address(Guard(), "no-such-host.invalid", 5432)
    assert problem(unknown.value, "no-such-host.invalid") == "no-such-host.invalid cannot be resolved"
