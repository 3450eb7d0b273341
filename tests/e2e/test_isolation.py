"""Tenant B gets 404 or 403 for the ids of tenant A's assets, and finds nothing of A in any list, on the whole stack."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from lily_api.app import create_app
from lily_common.config import Settings
from tests.support.isolation import Makers, Operation, check_isolated, lists, with_ids
from tests.support.stack import Stack
from tests.support.tenant import Tenant

pytestmark = pytest.mark.stack
DOCUMENT = create_app(Settings()).openapi()


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=stack.url, timeout=30, trust_env=False) as opened:
        yield opened


def _as(tenant: Tenant) -> dict[str, str]:
    return {"Authorization": f"Bearer {tenant.key}"}


@pytest.mark.parametrize("operation", with_ids(DOCUMENT, on_the_stack=True), ids=str)
async def test_a_strangers_assets_do_not_exist(
    client: httpx.AsyncClient, tenant: Tenant, other: Tenant, operation: Operation
) -> None:
    makers = Makers(client, tenant.id, _as(tenant))
    await check_isolated(client, operation, makers, owner=_as(tenant), stranger=_as(other))


async def test_no_list_shows_a_strangers_things(
    client: httpx.AsyncClient, tenant: Tenant, other: Tenant
) -> None:
    makers = Makers(client, tenant.id, _as(tenant))
    made = [await makers.make(name) for name in ("tenant", "qualified_name", "key_id", "subscription_id")]
    operations = lists(DOCUMENT)
    assert len(operations) > 10
    for operation in operations:
        await _shows_nothing(client, other, operation, made)


async def _shows_nothing(
    client: httpx.AsyncClient, other: Tenant, operation: Operation, made: list[str]
) -> None:
    answer = await client.get(operation.path, headers=_as(other))
    assert answer.status_code in (200, 403), f"{operation}: {answer.text}"
    assert not [one for one in made if one in answer.text], operation
