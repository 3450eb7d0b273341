"""A source's status: what was wanted, how far it has come, and what Connect says of it now."""

from __future__ import annotations

from lily_api.capture import repository
from lily_api.capture.client import ConnectAwayError, ConnectorState, ConnectRefusedError
from lily_api.capture.models import CaptureSource
from lily_api.capture.reconciler import Reconciler
from lily_api.capture.steps import Tools, opened
from lily_api.capture.words import shortened
from lily_api.connectors.schemas import ConnectorStatus, TaskView
from lily_api.services import Services
from lily_connectors.debezium.names import connector_name
from lily_connectors.models import Connector

_AWAY = "Kafka Connect does not answer: what it does now is not known"


async def read(services: Services, connector: Connector) -> ConnectorStatus:
    """The status of any connector; those that have no source are as they were told to be."""
    async with services.db() as session:
        source = await repository.get(session, connector.tenant, connector.id)
    status = ConnectorStatus.model_validate(
        {"id": connector.id, "wanted": connector.status, "state": connector.status, "settled": True}
    )
    if source is None:
        return status
    status.settled = source.settled == source.revision
    status.problem = source.problem
    tools = services.get(Reconciler).tools
    if tools is None:
        status.state, status.problem = "unknown", "this Lily has no Kafka Connect any more"
        return status
    return await _asked(tools, source, status)


async def _asked(tools: Tools, source: CaptureSource, status: ConnectorStatus) -> ConnectorStatus:
    name = connector_name(source.tenant, source.source)
    try:
        state = await tools.connect.state(name)
        topics = await tools.connect.topics(name) if state is not None else []
    except (ConnectAwayError, ConnectRefusedError):
        status.state, status.problem = "unknown", status.problem or _AWAY
        return status
    status.topics = [topic for topic in topics if topic.startswith("cdc.")]
    if state is None:
        status.state = "pending"
        return status
    return _filled(status, state, _password(tools, source))


def _filled(status: ConnectorStatus, state: ConnectorState, password: str | None) -> ConnectorStatus:
    status.state = "failed" if state.failed else state.state.lower()
    if status.state == "stopped" and status.wanted == "paused":
        status.state = "paused"
    if status.state == "running" and status.settled and status.problem is not None:
        status.state = "retrying"
    status.tasks = [
        TaskView(id=task.id, state=task.state.lower(), error=shortened(task.trace, password) or None)
        for task in state.tasks
    ]
    if state.failed and status.problem is None:
        traces = [state.trace, *(task.trace for task in state.tasks)]
        first = next((trace for trace in traces if trace), "")
        status.problem = (
            shortened(first, password).rpartition("\n")[2] or "it failed and Connect does not say why"
        )
    return status


def _password(tools: Tools, source: CaptureSource) -> str | None:
    try:
        return opened(tools.secrets, source)[1]
    except ValueError:
        return None
