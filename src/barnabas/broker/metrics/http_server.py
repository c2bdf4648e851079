"""Serves the broker's metrics over HTTP, on the event loop of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

_LARGEST_REQUEST = 8192
_PLAIN = "text/plain; charset=utf-8"
_PATIENCE = 10.0


class MetricsProtocol(asyncio.Protocol):
    """One HTTP connection: one request, one answer, and the end. `text` gives the metrics, of that content type."""

    def __init__(self, text: Callable[[], bytes], content_type: str):
        self._text = text
        self._content_type = content_type
        self._received = b""
        self._timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a client that has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._timeout = asyncio.get_running_loop().call_later(_PATIENCE, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """Answer, once the head of a request is there."""
        if self._transport.is_closing():
            return
        self._received += data
        if b"\r\n\r\n" in self._received:
            self._transport.write(answer(self._received, self._text, self._content_type))
            self._transport.close()
        elif len(self._received) > _LARGEST_REQUEST:
            self._transport.write(_response("431 Request Header Fields Too Large", b"the request is too large\n"))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is over."""
        if self._timeout is not None:
            self._timeout.cancel()


def answer(request: bytes, text: Callable[[], bytes], content_type: str) -> bytes:
    """Return the response to a request: the metrics for `GET /metrics`."""
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", b"only GET is served\n")
    if path != b"/metrics":
        return _response("404 Not Found", b"the metrics are at /metrics\n")
    return _response("200 OK", text(), content_type, head_only=method == b"HEAD")


def _response(status: str, body: bytes, content_type: str = _PLAIN, *, head_only: bool = False) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() if head_only else head.encode() + body
