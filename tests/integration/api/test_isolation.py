"""Tenant B gets 404 or 403 for every route with tenant A's ids, and finds nothing of A in any list."""

from __future__ import annotations

import pytest
from tests.support.api import Api
from tests.support.isolation import Makers, Operation, check_isolated, lists, with_ids

from lily_api.app import create_app
from lily_common.config import Settings

DOCUMENT = create_app(Settings()).openapi()
#: Answered from MongoDB or the lake, hence tested on the stack.
ELSEWHERE = ("/v1/assets", "/v1/policies/bundle")


@pytest.mark.parametrize("operation", with_ids(DOCUMENT, on_the_stack=False), ids=str)
async def test_a_strangers_ids_do_not_exist(api: Api, operation: Operation) -> None:
    owner, stranger = await api.tenant(), await api.tenant()
    makers = Makers(api.client, owner, api.operator(owner))
    await check_isolated(
        api.client,
        operation,
        makers,
        owner=await api.admin(owner),
        stranger=await api.admin(stranger),
    )


@pytest.mark.parametrize(
    "operation", [one for one in lists(DOCUMENT) if not one.path.startswith(ELSEWHERE)], ids=str
)
async def test_no_list_shows_a_strangers_things(api: Api, operation: Operation) -> None:
    owner, stranger = await api.tenant(), await api.tenant()
    makers = Makers(api.client, owner, api.operator(owner))
    parameters = {name for one in with_ids(DOCUMENT, on_the_stack=False) for name in one.parameters}
    made = [await makers.make(name) for name in sorted(parameters)]
    answer = await api.client.get(operation.path, headers=await api.admin(stranger))
    assert answer.status_code in (200, 403), answer.text
    assert not [one for one in made if one in answer.text]


def test_there_are_routes_to_test() -> None:
    tested = {str(operation) for operation in with_ids(DOCUMENT, on_the_stack=False)}
    assert {"GET /v1/keys/{key_id}", "DELETE /v1/clients/{client_id}", "PATCH /v1/tenants/{tenant}"} <= tested
