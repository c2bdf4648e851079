"""A request on its way, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from barnabas.errors import KafkaError
    from barnabas.protocol.message import Message

SOFTWARE_NAME = "barnabas"
# The numbers above it are SaslClientAuthenticator's, so that its responses are told from others (Kafka reserves 8 too).
LAST_CORRELATION_ID = 2**31 - 1 - 8


class RequestBuilder:
    """A request whose content depends on the version that the broker understands.

    `build(version)` makes the message, for any version from `low` to `high`; it may raise UnsupportedVersionError
    when what it has to say cannot be said in that version.
    """

    __slots__ = ("api_key", "build", "high", "low")

    def __init__(self, api_key: int, build: Callable[[int], Message], low: int, high: int) -> None:
        self.api_key = api_key
        self.build = build
        self.low = low
        self.high = high

    @classmethod
    def fixed(cls, message: Message, high: int) -> RequestBuilder:
        """Return a message that must not be sent in a version above `high`."""
        return cls(message.API_KEY, lambda _: message, message.VALID_VERSIONS[0], high)


Request: TypeAlias = "Message | RequestBuilder"
"""What is asked: a message, or what makes one in the version that the broker understands."""


class ClientRequest:
    """What `NetworkClient.send` takes. Made by `NetworkClient.new_client_request`.

    `message` is a request message, or a `RequestBuilder`. `timeout` is in seconds, from the moment it is sent.
    """

    __slots__ = (
        "api_key",
        "callback",
        "correlation_id",
        "created_at",
        "destination",
        "expect_response",
        "message",
        "timeout",
    )

    def __init__(
        self,
        destination: int,
        message: Request,
        correlation_id: int,
        created_at: float,
        expect_response: bool,
        timeout: float,
        callback: Callable[[ClientResponse], None] | None,
    ) -> None:
        self.destination = destination
        self.message = message
        self.api_key: int = message.api_key if isinstance(message, RequestBuilder) else message.API_KEY
        self.correlation_id = correlation_id
        self.created_at = created_at
        self.expect_response = expect_response
        self.timeout = timeout
        self.callback = callback

    def __repr__(self) -> str:
        return (
            f"ClientRequest(api_key={int(self.api_key)}, correlation_id={self.correlation_id}, "
            f"destination={self.destination}, expect_response={self.expect_response}, timeout={self.timeout})"
        )


class ClientResponse:
    """What came of a `ClientRequest`.

    Exactly one of these holds: `message` is the response; or it is None without an error, because none was expected;
    or `error` says what went wrong, with `disconnected` when the connection ended before the response came (the broker
    may or may not have acted on the request), `timed_out` when that was because it took longer than the request's
    timeout, and `version_mismatch` when the broker does not know a version of the request that can say this.
    """

    __slots__ = (
        "api_version",
        "destination",
        "disconnected",
        "error",
        "message",
        "received_at",
        "request",
        "timed_out",
        "version_mismatch",
    )

    def __init__(
        self,
        request: ClientRequest,
        received_at: float,
        *,
        message: Any = None,
        error: KafkaError | None = None,
        disconnected: bool = False,
        timed_out: bool = False,
        version_mismatch: bool = False,
        api_version: int = -1,
    ) -> None:
        self.request = request
        self.destination = request.destination
        self.received_at = received_at
        self.message = message
        self.error = error
        self.disconnected = disconnected
        self.timed_out = timed_out
        self.version_mismatch = version_mismatch
        self.api_version = api_version

    @property
    def latency(self) -> float:
        """Seconds from the request's creation to this response."""
        return self.received_at - self.request.created_at

    def on_complete(self) -> None:
        """Run the request's callback, if it has one, for the only time.

        The request lets go of it: a callback mostly keeps the response, which keeps the request, and megabytes
        of records would wait in that circle for a garbage collection.
        """
        if self.request.callback is not None:
            self.request.callback(self)
            self.request.callback = None

    def __repr__(self) -> str:
        outcome = self.error if self.error is not None else type(self.message).__name__
        return f"ClientResponse({self.request!r}, {outcome!r}, disconnected={self.disconnected})"
