"""What a handler knows about the request besides its message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.protocol.messages.request_header import RequestHeader


class CloseConnection(Exception):  # noqa: N818 - not an error of the program but the way to answer a client
    """Raised by a handler that has no other way to answer than to end the connection; the message says why."""


class Connection:
    """The peer a request came from: facts that stay the same for all its requests.

    `principal` is who it is once `is_authenticated`, `is_token_authenticated` whether that came by a delegation token;
    only what authenticates sets them.
    """

    __slots__ = (
        "client_host",
        "client_port",
        "client_software_name",
        "client_software_version",
        "id",
        "is_authenticated",
        "is_token_authenticated",
        "listener",
        "principal",
        "security_protocol",
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
        self.security_protocol = "PLAINTEXT"
        self.is_authenticated = True
        self.is_token_authenticated = False
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"

    @property
    def inet_address(self) -> str:
        """The client's host as Java's InetAddress shows it, which Kafka keeps of members: a slash and the number."""
        return f"/{self.client_host}"


class RequestContext:
    """One request's header, its connection and the time it was taken up.

    Handlers read no clock but `instant`. `size` is the bytes of the request. A handler that finds a quota exceeded sets
    `throttle`, the seconds that the client has to wait; `queue_seconds` is how long it waited before, `handler_seconds`
    what handling took, where that is measured. `amend` changes the response that
    comes later, by what its principal may see.
    """

    __slots__ = (
        "amend",
        "api_key",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "handler_seconds",
        "instant",
        "queue_seconds",
        "size",
        "throttle",
    )

    def __init__(self, header: RequestHeader, connection: Connection, instant: Instant, size: int = 0):
        self.api_key = header.request_api_key
        self.api_version = header.request_api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.connection = connection
        self.instant = instant
        self.size = size
        self.amend: Callable[[Any], Any] | None = None
        self.throttle = 0.0
        self.handler_seconds = 0.0
        self.queue_seconds = 0.0

    @property
    def now(self) -> float:
        """The monotonic clock, seconds."""
        return self.instant.now

    @property
    def now_ms(self) -> int:
        """The wall clock, epoch milliseconds."""
        return self.instant.now_ms
