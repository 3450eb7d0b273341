"""The application: every domain's router under the same error form, limits and metrics."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from fastapi import APIRouter, FastAPI

from lily_api import __version__, middleware, openapi, problems
from lily_api.assets.endpoints import parts as asset_parts
from lily_api.assets.endpoints import router as assets
from lily_api.audit.endpoints import router as audit
from lily_api.auth.endpoints import router as auth
from lily_api.capture import reconciler as capture
from lily_api.commands import results as command_results
from lily_api.commands.endpoints import router as commands
from lily_api.connectors.endpoints import router as connectors
from lily_api.declarations import publishing as declarations
from lily_api.deliveries.endpoints import router as deliveries
from lily_api.enforcement import feed as enforcement
from lily_api.enforcement.databases import rounds as enforced_databases
from lily_api.enforcement.endpoints import router as opa
from lily_api.enforcement.fastpath import AnswersFirst
from lily_api.enforcement.mappings import router as mappings
from lily_api.enrichment.endpoints import router as enrichment
from lily_api.erasures import progress as erasure_progress
from lily_api.erasures import stopping as erasure_stopping
from lily_api.erasures.endpoints import router as erasures
from lily_api.health.endpoints import router as health
from lily_api.history.endpoints import router as history
from lily_api.ingest.endpoints import router as ingest
from lily_api.ingest.fastpath import EventsFirst
from lily_api.keys.endpoints import router as keys
from lily_api.lake import reader as lake
from lily_api.lineage.endpoints import router as lineage
from lily_api.oauth.endpoints import router as oauth
from lily_api.openlineage.endpoints import router as openlineage_events
from lily_api.policies.endpoints import router as policies
from lily_api.propagation.endpoints import router as propagation
from lily_api.services import Services, build
from lily_api.stream import hub as stream_hub
from lily_api.stream.endpoints import router as stream
from lily_api.subscriptions.endpoints import router as subscriptions
from lily_api.tables import results as table_refreshes
from lily_api.tables.endpoints import router as tables
from lily_api.tenants.endpoints import router as tenants
from lily_api.tenants.service import publish_all_policies
from lily_api.webhooks.endpoints import router as webhooks
from lily_common.config import Settings
from lily_common.config import settings as read_settings

#: One line per domain.
ROUTERS: list[APIRouter] = [
    health,
    oauth,
    auth,
    tenants,
    keys,
    audit,
    connectors,
    ingest,
    webhooks,
    openlineage_events,
    subscriptions,
    deliveries,
    lineage,
    asset_parts,
    assets,
    history,
    stream,
    commands,
    tables,
    propagation,
    enrichment,
    mappings,
    policies,
    opa,
    erasures,
]

#: What a domain runs beside the requests (a consumer, a cache): entered when the services are up, left before they go.
BACKGROUND: list[Callable[[Services], AbstractAsyncContextManager[None]]] = [
    publish_all_policies,
    lake.running,
    stream_hub.running,
    command_results.running,
    capture.running,
    table_refreshes.running,
    declarations.running,
    enforcement.running,
    enforced_databases.running,
    erasure_stopping.running,
    erasure_progress.running,
]


class _Application(EventsFirst, AnswersFirst):
    """What is asked most is answered ahead of the framework."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The whole API. Nothing is connected before the lifespan starts, so that the OpenAPI needs no server."""
    chosen = settings or read_settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            services = await stack.enter_async_context(build(chosen))
            app.state.lily = services
            for background in BACKGROUND:
                await stack.enter_async_context(background(services))
            _settle_memory()
            yield

    app = _Application(title="Lily", version=__version__, lifespan=lifespan, redirect_slashes=False)
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app, ROUTERS)
    middleware.install(app, chosen)
    openapi.install(app, ROUTERS)
    return app


def _settle_memory() -> None:
    """What is loaded by now stays: the collector need not walk it again, nor at every batch's few hundred objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
