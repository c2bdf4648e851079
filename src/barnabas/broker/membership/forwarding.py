"""Requests of clients that only the controller can carry out, in an Envelope (ForwardingManager, KIP-590)."""

from __future__ import annotations

import ipaddress
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas import errors
from barnabas.broker.envelope import ACLS, OF_CONTROLLERS, OF_QUORUMS, SETTINGS, TOKENS, encode_principal
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest
from barnabas.broker.membership.refusals import refused
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.security.delegation_tokens import may_ask
from barnabas.protocol.framing import decode_response, encode_request
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.messages.alter_configs_response import AlterConfigsResponse
from barnabas.protocol.messages.envelope_request import EnvelopeRequest
from barnabas.protocol.messages.envelope_response import EnvelopeResponse
from barnabas.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.instant import Instant
    from barnabas.broker.membership.node_to_controller_channel import ControllerRequests
    from barnabas.broker.request_context import Connection, RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.alter_configs_request import AlterConfigsRequest
    from barnabas.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

_SIZE = 4
#: How long a request waits for a controller, in seconds.
_TIMEOUT = 30.0
#: Resources of loggers in a request that has others, too; a broker has one.
_MOST_LOGGERS = 100

#: What goes to the controller as it comes.
_FORWARDED = OF_CONTROLLERS | ACLS | OF_QUORUMS

SettingsRequest: TypeAlias = "AlterConfigsRequest | IncrementalAlterConfigsRequest"
SettingsResponse: TypeAlias = "AlterConfigsResponse | IncrementalAlterConfigsResponse"


class Forwarding:
    """Sends requests on as they came, and gives the responses back."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    def handler(self, api_key: int, local: Handler | None) -> Handler:
        """Return what serves an API: the controller where it is for that, else the broker's own handler."""
        if api_key in _FORWARDED:
            return self._handle
        assert local is not None, "all else is served here"
        if api_key in TOKENS:
            return self._token_handler(local)
        return self._settings_handler(local) if api_key in SETTINGS else local

    def _settings_handler(self, local: Handler) -> Handler:
        def handle(
            broker: BrokerState, context: RequestContext, request: SettingsRequest
        ) -> Message | DelayedOperation | None:
            own = [one.resource_type == ConfigResourceType.BROKER_LOGGER for one in request.resources]
            if not any(own):
                return self._handle(broker, context, request)
            if all(own):
                return local(broker, context, request)
            if sum(own) > _MOST_LOGGERS:
                return refused(request, errors.InvalidRequestError.code)
            mine, others = _parted(request, own)
            here = local(broker, context, mine)
            operation = DelayedOperation()
            self.forward(others, context, lambda there: operation.complete(_together(request, here, there)))
            return operation

        return handle

    def _token_handler(self, local: Handler) -> Handler:
        def handle(broker: BrokerState, context: RequestContext, request: Message) -> Message | DelayedOperation | None:
            # The envelope does not tell the controller how who asks has authenticated.
            is_refused = not may_ask(context.connection)
            return (local if is_refused else self._handle)(broker, context, request)

        return handle

    def _handle(self, broker: BrokerState, context: RequestContext, request: Message) -> DelayedOperation:
        operation = DelayedOperation()
        self.forward(request, context, operation.complete)
        return operation

    def forward(self, request: Message, context: RequestContext, answer: Callable[[Message], None]) -> None:
        """Have the controller carry a request out for a client; `answer` gets its response."""
        version = context.api_version
        envelope = EnvelopeRequest(
            request_data=encode_request(request, version, context.correlation_id, context.client_id)[_SIZE:],
            request_principal=encode_principal(context.connection.principal),
            client_host_address=_address(context.connection),
        )

        def done(response: Message, now: Instant) -> None:
            answer(_unwrapped(request, version, response))

        def give_up() -> None:
            answer(refused(request, errors.KafkaTimeoutError.code))

        self._requests.submit(ControllerRequest(lambda: envelope, done, context.now + _TIMEOUT, give_up))


def _parted(request: SettingsRequest, own: list[bool]) -> tuple[SettingsRequest, SettingsRequest]:
    """Return what of a request is for this broker, and what is for the controller."""
    mine, others = copy(request), copy(request)
    resources: list[Any] = request.resources
    mine.resources = [one for one, is_own in zip(resources, own, strict=True) if is_own]
    others.resources = [one for one, is_own in zip(resources, own, strict=True) if not is_own]
    return mine, others


def _together(request: SettingsRequest, here: Message | DelayedOperation | None, there: Message) -> SettingsResponse:
    """Return one response to what was changed here and at the controller, in the order of the request."""
    assert isinstance(here, (AlterConfigsResponse, IncrementalAlterConfigsResponse))
    assert isinstance(there, (AlterConfigsResponse, IncrementalAlterConfigsResponse))
    found = {**_by_resource(here), **_by_resource(there)}
    names = [(one.resource_type, one.resource_name) for one in request.resources]
    return type(here)(responses=[found[name] for name in dict.fromkeys(names) if name in found])


def _by_resource(response: SettingsResponse) -> dict[tuple[int, str], Any]:
    return {(one.resource_type, one.resource_name): one for one in response.responses}


def _unwrapped(request: Message, version: int, response: Message) -> Message:
    if isinstance(response, EnvelopeResponse) and not response.error_code and response.response_data is not None:
        return decode_response(request.API_KEY, version, response.response_data)[1]
    return refused(request, errors.UnknownServerError.code)


def _address(connection: Connection) -> bytes:
    try:
        return ipaddress.ip_address(connection.client_host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
