"""Kafka Connect's REST interface, as far as Lily uses it. Every call is idempotent and bounded in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

#: Connect checks a configuration by connecting to the database, which may not answer.
_CHECK_SECONDS = 40.0
_SECONDS = 8.0
#: Answered while workers find out who leads them, and by one that has just started.
_LATER = frozenset({404, 409, 500, 502, 503, 504})
_MAX_TEXT = 2000


class ConnectAwayError(Exception):
    """Connect does not answer, or is not ready to: the same call may succeed later."""


class ConnectRefusedError(Exception):
    """Connect answered that it will not do it; the text is its reason."""


@dataclass(frozen=True, slots=True)
class TaskState:
    id: int
    state: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """What Connect says of one connector. States are Connect's: RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED, …"""

    state: str
    trace: str = ""
    tasks: tuple[TaskState, ...] = field(default=())

    @property
    def failed(self) -> bool:
        return self.state == "FAILED" or any(task.state == "FAILED" for task in self.tasks)


class ConnectClient:
    """One Connect cluster. Names are those of connectors. Close it at the end."""

    def __init__(self, url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._http = httpx.AsyncClient(
            base_url=url.rstrip("/"), timeout=_SECONDS, trust_env=False, transport=transport
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def ping(self) -> None:
        """Return when a worker answers that it is ready. Raises ConnectAwayError."""
        await self._call("GET", "/health")

    async def config(self, name: str) -> dict[str, str] | None:
        """The connector's configuration as it was given, references unresolved; None when there is no such connector."""
        answer = await self._find("GET", f"{_path(name)}/config")
        return {key: str(value) for key, value in answer.items()} if answer is not None else None

    async def state(self, name: str) -> ConnectorState | None:
        """None when there is no such connector, or it was made a moment ago."""
        answer = await self._find("GET", f"{_path(name)}/status")
        if answer is None:
            return None
        own = answer.get("connector", {})
        tasks = tuple(
            TaskState(int(task["id"]), str(task["state"]), str(task.get("trace") or ""))
            for task in answer.get("tasks", [])
        )
        return ConnectorState(str(own.get("state", "UNASSIGNED")), str(own.get("trace") or ""), tasks)

    async def topics(self, name: str) -> list[str]:
        """Topics that the connector has written to."""
        answer = await self._find("GET", f"{_path(name)}/topics") or {}
        return sorted(str(topic) for topic in answer.get(name, {}).get("topics", []))

    async def put(self, name: str, config: Mapping[str, str]) -> None:
        """Make the connector, or give it this configuration. Raises ConnectRefusedError with what is wrong with it."""
        given = {"name": name, **config}
        response = await self._send("PUT", f"{_path(name)}/config", given, _CHECK_SECONDS)
        if response.status_code == 500:
            # Connect 4.2 stumbles over its own report where a plugin has an option that it does not validate. Asked
            # apart, it tells what is wrong.
            await self.check(name, config)
        _checked(response)

    async def check(self, name: str, config: Mapping[str, str]) -> None:
        """Have the plugin check the configuration, which connects to the database. Raises ConnectRefusedError with why not."""
        path = f"/connector-plugins/{quote(config['connector.class'], safe='')}/config/validate"
        given = {"name": name, **config}
        found = await self._call("PUT", path, json=given, within=_CHECK_SECONDS)
        values = [item["value"] for item in found.get("configs", []) if item.get("value")]
        errors = [str(error) for value in values for error in value.get("errors", [])]
        if errors:
            raise ConnectRefusedError("\n".join(errors))

    async def pause(self, name: str) -> None:
        await self._call("PUT", f"{_path(name)}/pause")

    async def resume(self, name: str) -> None:
        await self._call("PUT", f"{_path(name)}/resume")

    async def stop(self, name: str) -> None:
        """Shut its tasks down; configuration and offsets stay."""
        await self._call("PUT", f"{_path(name)}/stop")

    async def restart_failed(self, name: str) -> None:
        await self._call("POST", f"{_path(name)}/restart?includeTasks=true&onlyFailed=true")

    async def forget_offsets(self, name: str) -> None:
        """Let it begin anew; it has to be stopped."""
        await self._call("DELETE", f"{_path(name)}/offsets", within=_CHECK_SECONDS)

    async def delete(self, name: str) -> None:
        """Remove it; no error when it is gone already."""
        await self._find("DELETE", _path(name))

    async def _find(self, method: str, path: str) -> Any:
        """The answer's JSON, or None for a 404 that is about the connector."""
        response = await self._send(method, path, None, _SECONDS)
        if response.status_code == 404:
            return None
        return _checked(response)

    async def _call(self, method: str, path: str, *, json: Any = None, within: float = _SECONDS) -> Any:
        return _checked(await self._send(method, path, json, within))

    async def _send(self, method: str, path: str, json: Any, within: float) -> httpx.Response:
        try:
            return await self._http.request(method, path, json=json, timeout=within)
        except httpx.HTTPError as error:
            raise ConnectAwayError(f"Kafka Connect does not answer ({type(error).__name__})") from error


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _checked(response: httpx.Response) -> Any:
    if response.is_success:
        return response.json() if response.content else None
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text
    text = f"{message[:_MAX_TEXT]}"
    if response.status_code in _LATER:
        raise ConnectAwayError(f"Kafka Connect is not ready ({response.status_code}): {text}")
    raise ConnectRefusedError(text)
