"""What a handler knows about the request besides its message."""

from __future__ import annotations


class CloseConnection(Exception):  # noqa: N818 - not an error of the program but the way to answer a client
    """Raised by a handler that has no other way to answer than to end the connection; the message says why."""


class Connection:
    """The peer a request came from: facts that stay the same for all its requests."""

    __slots__ = (
        "client_host",
        "client_port",
        "client_software_name",
        "client_software_version",
        "id",
        "listener",
        "principal",
    )

    def __init__(
        self,
        id: int,
        client_host: str,
        listener: str = "PLAINTEXT",
        principal: str = "User:ANONYMOUS",
        client_port: int = 0,
    ):
        self.id = id
        self.client_host = client_host
        self.client_port = client_port
        self.listener = listener
        self.principal = principal
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"


class RequestContext:
    """One request's header, its connection and the time it was taken up.

    `now` is monotonic seconds, `now_ms` epoch milliseconds: handlers read no clock of their own. `size` is the bytes of
    the request. A handler that finds a quota exceeded sets `throttle`, the seconds that the client has to wait;
    `handler_seconds` is what handling took, where anybody wants to know.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "handler_seconds",
        "now",
        "now_ms",
        "size",
        "throttle",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        connection: Connection,
        now: float,
        now_ms: int,
        size: int = 0,
    ):
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.now = now
        self.now_ms = now_ms
        self.size = size
        self.throttle = 0.0
        self.handler_seconds = 0.0
