"""Requests of clients that the controller carries out, sent on as they came: brokers of 3.9 take no Envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.envelope import OF_CONTROLLERS
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest
from barnabas.broker.membership.refusals import refused
from barnabas.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.instant import Instant
    from barnabas.broker.membership.node_to_controller_channel import ControllerRequests
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message

#: How long a request waits for a controller, in seconds.
_TIMEOUT = 30.0


class PlainForwarding:
    """Sends requests on in this broker's name, and gives the responses back. Each was authorized before."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    def handler(self, api_key: int, local: Handler | None) -> Handler:
        """Return what serves an API: the controller where it is for that, else the broker's own handler."""
        if api_key in OF_CONTROLLERS:
            return self._handle
        assert local is not None, "all else is served here"
        return local

    def _handle(self, broker: BrokerState, context: RequestContext, request: Message) -> DelayedOperation:
        operation = DelayedOperation()

        def done(response: Message, now: Instant) -> None:
            operation.complete(response)

        def give_up() -> None:
            operation.complete(refused(request, errors.KafkaTimeoutError.code))

        self._requests.submit(ControllerRequest(lambda: request, done, context.now + _TIMEOUT, give_up))
        return operation
