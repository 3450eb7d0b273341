"""Making everything agree with one row, step by step. Each step may be repeated, and each pass begins with the first.

Order when a source is wanted: the policy topic (the lake job must know what is mirrored before rows come), the password's
file, the publication, the connector, its state. When it is removed: the connector stops, its offsets go (a source of that name made later
must take its snapshot), the connector goes, then the slot, the file and the policy. The slot goes after the connector:
Debezium would make it again. Whatever fails is raised; what was done before stays done.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import psycopg
from pydantic import ValidationError

from lily_api.capture import policy
from lily_api.capture.addresses import judged_address, problem
from lily_api.capture.client import ConnectAwayError, ConnectClient, ConnectorState, ConnectRefusedError
from lily_api.capture.databases import SourceDatabase
from lily_api.capture.models import PAUSED, CaptureSource
from lily_api.capture.passwords import PasswordFolder
from lily_common.crypto import SecretBox
from lily_common.kafka import Producer
from lily_connectors import registry
from lily_connectors.debezium.config import SourceConfig
from lily_connectors.debezium.names import connector_name
from lily_connectors.debezium.settings import Capture
from lily_connectors.secrets import open_sealed
from lily_connectors.ssrf import Guard
from lily_connectors.vendors.debezium_postgres.config import Config as PostgresConfig

_STOP_SECONDS = 12.0
_POLL_SECONDS = 0.2
_SNAPSHOT_MODES_THAT_READ = frozenset({"initial", "when_needed"})


class UnreachableSourceError(Exception):
    """The tenant's own part is wrong: its host does not resolve, or is not one that may be reached."""


class DatabaseRefusesError(Exception):
    """The tenant's database does not let Lily in, or not do what it has to."""


class SlotLeftError(Exception):
    """All is removed but the replication slot; the text says why, and what its owner can do."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What Connect says of a source that is as wanted (None: nothing yet), and why its tasks get nothing all the same."""

    state: ConnectorState | None
    trouble: str | None = None

    @property
    def failing(self) -> bool:
        return self.trouble is not None or (self.state is not None and self.state.failed)


@dataclass(frozen=True)
class Tools:
    """What the steps work with."""

    connect: ConnectClient
    passwords: PasswordFolder
    producer: Producer
    secrets: SecretBox
    guard: Guard


def opened(secrets: SecretBox, source: CaptureSource) -> tuple[SourceConfig, str | None]:
    """The configuration with its password, and the password. Raises ValueError when the row does not fit its kind."""
    held = open_sealed(secrets, source.tenant, source.connector_id, source.secrets)
    password = held[0].value if held else None
    fields = {**source.config, **({"password": password} if password is not None else {})}
    try:
        config = registry.kind(source.kind).config.model_validate(fields)
    except ValidationError as invalid:
        # Its own text would show the values.
        raise ValueError(
            f"the stored configuration is not valid: {invalid.error_count()} wrong fields"
        ) from None
    assert isinstance(config, SourceConfig)
    return config, password


async def settle(tools: Tools, source: CaptureSource, *, restart: bool) -> Settled:
    """Have the source as it is wanted. `restart` starts failed tasks again.

    Raises UnreachableSourceError, DatabaseRefusesError, ConnectAwayError, ConnectRefusedError, UnavailableError (Kafka).
    """
    config, password = opened(tools.secrets, source)
    name = connector_name(source.tenant, source.source)
    if source.settled != source.revision:
        await tools.producer.send([policy.record(source, config)])
    wanted = await _settings(tools, source, config)
    if source.secrets is not None and password is not None:
        tools.passwords.write(source.connector_id, source.secrets, password)
    missing = await _publish(tools, source, config, name)
    held = await tools.connect.config(name)
    if held is not None:
        held.pop("name", None)
    if held != wanted:
        if held is not None and _reads_more(held, wanted):
            await _forget(tools.connect, name)
        await tools.connect.put(name, wanted)
        tools.passwords.keep_only(source.connector_id, source.secrets)
    state = await tools.connect.state(name)
    if state is None:
        # Made a moment ago. Pausing needs no status; running is what it does by itself.
        if source.wanted == PAUSED:
            await tools.connect.pause(name)
        return Settled(None)
    if source.wanted == PAUSED and state.state not in ("PAUSED", "STOPPED"):
        await tools.connect.pause(name)
    elif source.wanted != PAUSED and state.state in ("PAUSED", "STOPPED"):
        await tools.connect.resume(name)
    elif state.failed and restart:
        await tools.connect.restart_failed(name)
    elif held == wanted and state.state == "RUNNING":
        return Settled(state, await _trouble(tools.connect, name, wanted) or missing)
    return Settled(state, missing)


async def _trouble(connect: ConnectClient, name: str, wanted: dict[str, str]) -> str | None:
    """Why the database does not let the tasks in, if so: they try again for ever, and Connect calls that running."""
    try:
        await connect.check(name, wanted)
    except ConnectRefusedError as refused:
        return str(refused)
    return None


async def remove(tools: Tools, source: CaptureSource) -> None:
    """Take everything of the source down. Raises ConnectAwayError, SlotLeftError, UnavailableError (Kafka)."""
    name = connector_name(source.tenant, source.source)
    if await tools.connect.config(name) is not None:
        await _forget(tools.connect, name)
        await tools.connect.delete(name)
    tools.passwords.keep_only(source.connector_id, None)
    await tools.producer.send([policy.tombstone(source)])
    await _drop_slot(tools, source)


async def _settings(tools: Tools, source: CaptureSource, config: SourceConfig) -> dict[str, str]:
    module = registry.kind(source.kind).capture
    address = await _address(tools.guard, config)
    reference = (
        tools.passwords.reference(source.connector_id, source.secrets) if source.secrets is not None else None
    )
    capture = Capture(
        source.tenant, source.connector_id, config.host if module.proves_name(config) else address, reference
    )
    return module.connect_settings(config, capture)


async def _address(guard: Guard, config: SourceConfig) -> str:
    try:
        return await judged_address(guard, config.host, config.port)
    except OSError as error:
        raise UnreachableSourceError(problem(error, config.host)) from error


async def _publish(tools: Tools, source: CaptureSource, config: SourceConfig, name: str) -> str | None:
    """Have PostgreSQL publish the tables; returns what is missing. New ones take the snapshot of all again."""
    if not isinstance(config, PostgresConfig):
        return None

    async def before_adding() -> None:
        if config.snapshot in _SNAPSHOT_MODES_THAT_READ and await tools.connect.config(name) is not None:
            await _forget(tools.connect, name)

    database = SourceDatabase.of(config, source.connector_id, await _address(tools.guard, config))
    try:
        missing = await database.publish(before_adding)
    except psycopg.Error as error:
        raise DatabaseRefusesError(_first_line(error)) from error
    if len(missing) == len(config.tables):
        raise DatabaseRefusesError(f"none of the tables is in the database: {', '.join(missing)[:200]}")
    return f"not in the database: {', '.join(missing)[:200]}" if missing else None


def _reads_more(held: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether collections are new, so that what they hold has to be read. (Tables: `_publish` knows.)

    Debezium reads what is there only where it has no offsets.
    """
    if wanted["snapshot.mode"] not in _SNAPSHOT_MODES_THAT_READ:
        return False
    include = "collection.include.list"
    return bool(set(wanted.get(include, "").split(",")) - set(held.get(include, "").split(",")))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


async def _forget(connect: ConnectClient, name: str) -> None:
    """Stop the connector, wait for its tasks to end, and delete its offsets."""
    await connect.stop(name)
    deadline = asyncio.get_running_loop().time() + _STOP_SECONDS
    while True:
        state = await connect.state(name)
        if state is None or (state.state == "STOPPED" and not state.tasks):
            break
        if asyncio.get_running_loop().time() > deadline:
            raise ConnectAwayError("the connector's tasks have not stopped yet")
        await asyncio.sleep(_POLL_SECONDS)
    try:
        await connect.forget_offsets(name)
    except ConnectRefusedError as refused:  # its tasks are still about to end
        raise ConnectAwayError(f"the connector's offsets cannot be deleted yet: {refused}") from refused


async def _drop_slot(tools: Tools, source: CaptureSource) -> None:
    config, _ = opened(tools.secrets, source)
    if not isinstance(config, PostgresConfig):
        return
    slot = SourceDatabase.of(config, source.connector_id, None)
    try:
        address = await _address(tools.guard, config)
        await SourceDatabase.of(config, source.connector_id, address).drop()
    except (UnreachableSourceError, psycopg.Error) as error:
        raise SlotLeftError(
            f"the replication slot {slot.name} is left in the database, whose log it holds up: {_first_line(error)}."
            f" {slot.by_hand}"
        ) from error
