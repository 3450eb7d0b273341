"""Whatever fits the OpenAPI document, or just misses it, gets a documented answer: never a server error."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.support.stack import Stack
from tests.support.tenant import Tenant

from lily_api.app import create_app
from lily_common.config import Settings

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]
#: An open stream has no end to wait for.
schema = schemathesis.openapi.from_dict(create_app(Settings()).openapi()).exclude(path="/v1/stream")

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)


@schema.parametrize()
@settings(
    max_examples=30,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_documented(case: schemathesis.Case, stack: Stack, tenant: Tenant) -> None:
    # The operator's header would turn every case into the same 403.
    case.headers.pop("X-Lily-Tenant", None)
    headers = {"Authorization": f"Bearer {tenant.key}"} if case.path != "/oauth2/token" else {}
    case.call_and_validate(headers=headers, checks=CHECKS, timeout=30, base_url=stack.url)
