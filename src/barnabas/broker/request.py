"""A request on its way from a connection to its handler and back (Kafka's RequestChannel.Request)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.protocol.api import request_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.network.client_connection import ClientConnection
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.codec import Plan
    from barnabas.protocol.message import Message


class ServedApi:
    """How requests of one API and version are read and answered, and how many there were."""

    __slots__ = ("empty_request", "handle", "key", "name", "plan", "requests", "response_version", "version")

    def __init__(self, key: int, version: int, handle: Handler, plan: Plan | None, response_version: int):
        self.key = key
        self.name = request_class(key).NAME.removesuffix("Request")
        self.version = version
        self.handle = handle
        self.plan = plan
        self.empty_request = None if plan is not None else request_class(key)()
        self.response_version = response_version
        self.requests = 0


class Request:
    """One request: which API it asks, its message, where it came from and when (`context`).

    `message` is None once the request is parked, unless an observer wants to see it: its bytes lie in the buffer of
    the connection, which the next request uses.
    """

    __slots__ = ("_respond", "api", "connection", "context", "message")

    def __init__(
        self,
        api: ServedApi,
        message: Message | None,
        connection: ClientConnection,
        context: RequestContext,
        respond: Callable[[Request, Message | None], None],
    ):
        self.api = api
        self.message = message
        self.connection = connection
        self.context = context
        self._respond = respond

    def answer(self, message: Message | None) -> None:
        """Give the client its response; None where it expects none."""
        self._respond(self, message)


class RequestObserver(Protocol):
    """Who is notified of every answered request: the metrics, the request log."""

    def completed(self, request: Request, response: Message | None, now: float) -> None:
        """Take note that a request was answered at `now`; `response` is None where the client expects none."""

    def sent(self, request: Request, seconds: float, now: float) -> None:
        """Take note that the response was given to the socket, so long after it was made."""


class ShortcutObserver(Protocol):
    """Who is notified of what shortcuts answered, without a Request: the metrics."""

    def answered_at_once(self, api: ServedApi, answer: bytes, seconds: float, now: float) -> None:
        """Take note that a shortcut gave this answer at `now`, and took so long."""
