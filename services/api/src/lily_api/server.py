"""The HTTP/1.1 server's own errors in the API's form: a request that cannot even be parsed reaches no route."""

from __future__ import annotations

import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lily_api.problems import MEDIA_TYPE
from lily_common.errors import MalformedError


class ProblemProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with problem details where it would answer in plain text."""

    def send_400_response(self, msg: str) -> None:
        """`msg` is uvicorn's text. The connection ends: where the next request would begin is not known."""
        error = MalformedError(f"{msg} A URL may have at most 64 KiB.", code="malformed-request")
        body = json.dumps(error.problem()).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
