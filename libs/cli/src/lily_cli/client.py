"""A small client of Lily's REST API. Errors become `CliError`s with one line; JSON goes in and out as plain values."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from lily_cli.errors import UNREACHABLE, ApiError, CliError
from lily_cli.settings import Settings

Json = dict[str, Any]
Params = Mapping[str, str | int | bool | Sequence[str] | None]
JSON: Final = "application/json"
EVENT_BATCH: Final = "application/cloudevents-batch+json"
_GZIP_FROM = 8 * 1024
_MAX_FIELDS = 3


def path_segment(text: str) -> str:
    """A qualified name (or any text) as one segment of a URL's path."""
    return quote(text, safe="")


class LilyClient:
    """Calls as one tenant, or as the operator where `operator=True`. Close it, or use it as a context manager."""

    def __init__(
        self, settings: Settings, *, timeout: float = 30.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.settings = settings
        try:
            self._http = httpx.Client(
                base_url=settings.url, timeout=timeout, transport=transport, trust_env=False
            )
        except httpx.InvalidURL as invalid:
            raise CliError(f"'{settings.url}' is not a URL: {invalid}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None, *, operator: bool = False) -> Any:
        """The decoded body of a GET. Raises ApiError on 4xx and 5xx, CliError when the API cannot be reached."""
        return self.call("GET", path, params=params, operator=operator)

    def post(self, path: str, body: Any = None, *, operator: bool = False) -> Any:
        return self.call("POST", path, body=body, operator=operator)

    def patch(self, path: str, body: Any, *, operator: bool = False) -> Any:
        return self.call("PATCH", path, body=body, operator=operator)

    def put_text(self, path: str, text: bytes, content_type: str) -> Any:
        """A body that is no JSON."""
        headers = self.settings.headers() | {"Content-Type": content_type}
        response = self._request("PUT", path, content=text, headers=headers)
        if response.status_code >= 400:
            raise api_error(response)
        return _decoded(response)

    def delete(self, path: str, *, operator: bool = False) -> Any:
        return self.call("DELETE", path, operator=operator)

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        operator: bool = False,
    ) -> Any:
        headers = self.settings.headers(operator=operator)
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = JSON
        response = self._request(method, path, params=params, content=content, headers=headers)
        if response.status_code >= 400:
            raise api_error(response)
        return _decoded(response)

    def pages(
        self, path: str, params: Params | None = None, *, limit: int | None = None, operator: bool = False
    ) -> Iterator[Json]:
        """Every item of a paged list, at most `limit`, fetched a page at a time."""
        wanted: dict[str, str | int | bool | Sequence[str] | None] = dict(params or {})
        left = limit
        while left is None or left > 0:
            if left is not None:
                wanted["limit"] = min(left, 500)
            page = self.get(path, wanted, operator=operator)
            items: list[Json] = page["items"]
            yield from items if left is None else items[:left]
            left = None if left is None else left - len(items)
            wanted["cursor"] = page.get("next_cursor")
            if not wanted["cursor"]:
                return

    def send_events(self, events: Sequence[Json]) -> Json:
        """`POST /v1/events` as a batch: `{accepted, rejected, items: [{index, id, status, problem?}]}`, rejects included."""
        content = json.dumps(list(events)).encode()
        headers = self.settings.headers() | {"Content-Type": EVENT_BATCH}
        if len(content) >= _GZIP_FROM:
            content = gzip.compress(content, 5)
            headers["Content-Encoding"] = "gzip"
        response = self._request("POST", "/v1/events", content=content, headers=headers)
        answer = _decoded(response)
        if isinstance(answer, dict) and isinstance(answer.get("items"), list):
            return answer
        raise api_error(response)

    def stream(self, path: str, params: Params | None, headers: Mapping[str, str]) -> Iterator[str]:
        """The lines of an endless answer (Server-Sent Events). Raises httpx.TransportError when it breaks off."""
        request = self._http.build_request(
            "GET",
            path,
            params=_clean(params),
            headers={**self.settings.headers(), **headers},
            timeout=httpx.Timeout(30.0, read=90.0),
        )
        response = self._http.send(request, stream=True)
        try:
            if response.status_code >= 400:
                response.read()
                raise api_error(response)
            yield from response.iter_lines()
        finally:
            response.close()

    def _request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str],
    ) -> httpx.Response:
        try:
            return self._http.request(
                method, path, params=_clean(params), content=content, headers=dict(headers)
            )
        except httpx.TimeoutException:
            raise CliError(f"{self.settings.url} did not answer in time", UNREACHABLE) from None
        except httpx.TransportError as failure:
            raise unreachable(self.settings.url, failure) from None


def unreachable(url: str, failure: Exception) -> CliError:
    reason = str(failure) or type(failure).__name__
    return CliError(f"cannot reach {url} ({reason}); is it running? `lily up` starts a stack", UNREACHABLE)


def _clean(params: Params | None) -> dict[str, Any] | None:
    if params is None:
        return None
    return {name: value for name, value in params.items() if value is not None and value not in ([], ())}


def _decoded(response: httpx.Response) -> Any:
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError:
        return response.text


def api_error(response: httpx.Response) -> ApiError:
    """An error answer as one line: what was wrong, each wrong field, and what to do where that is known."""
    body = _decoded(response)
    problem: dict[str, object] = body if isinstance(body, dict) else {}
    detail = problem.get("detail") or problem.get("title") or response.reason_phrase or "no reason given"
    message = f"{detail} ({response.status_code})"
    errors = problem.get("errors")
    if isinstance(errors, list):
        named = [
            f"{item.get('field')}: {item.get('message')}"
            for item in errors
            if isinstance(item, dict) and str(item.get("message")) not in str(detail)
        ]
        shown = "; ".join(named[:_MAX_FIELDS])
        more = f"; and {len(named) - _MAX_FIELDS} more" if len(named) > _MAX_FIELDS else ""
        message += f": {shown}{more}" if shown else ""
    if response.status_code == 401:
        message += "; check LILY_API_KEY"
    if retry := response.headers.get("Retry-After"):
        message += f"; try again in {retry} s"
    return ApiError(response.status_code, problem, " ".join(message.split()))
