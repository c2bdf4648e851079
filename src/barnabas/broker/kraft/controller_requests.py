"""Takes the requests of a controller's listeners to the quorum and to the controller (ControllerApis.handle)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from barnabas import errors
from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
from barnabas.broker.controller.controller_apis import ControllerApis
from barnabas.broker.controller.controller_result import ControllerRequestContext
from barnabas.broker.controller.deferred import Deferred
from barnabas.broker.controller.envelopes import ForwardedRequest, handle_envelope
from barnabas.broker.controller.feature_control_manager import CONTROLLER_FEATURES
from barnabas.broker.handlers.api_versions import software_problem
from barnabas.broker.handlers.registry import handler_for
from barnabas.broker.kraft.controller_rules import CONTROLLER_RULES
from barnabas.broker.kraft.logger_levels import with_loggers
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.request_context import Connection, RequestContext
from barnabas.broker.security.refusals import refused
from barnabas.broker.security.request_rules import guarded
from barnabas.protocol.api import stable_versions
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler, Shortcut
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
    from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
    from barnabas.protocol.messages.envelope_request import EnvelopeRequest

    #: Gives a request to the quorum: the message, the listener's name, and who takes the response; returns a number.
    AskQuorum = Callable[[Message, str, Callable[[Message], None]], int]

OF_QUORUM = (
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
)
#: What every node answers in the same way; settings and ACLs are read from the committed image.
_AS_A_BROKER = (
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_ACLS,
)
_OFF_ALLOWED_FROM = 4
_SOFTWARE_FROM = 3


class ControllerRequests:
    """The APIs of a controller (`NodeApis`).

    `ask_quorum` and `forget` are those of the `RaftDriver`; `turn_soon` has it look for what was appended.
    `on_heartbeat` is told on which connection each heartbeat came.
    """

    def __init__(self, state: BrokerState, apis: ControllerApis) -> None:
        self._state = state
        self._apis = apis
        self.ask_quorum: AskQuorum = _not_started
        self.forget: Callable[[int], None] = lambda number: None
        self.turn_soon: Callable[[], None] = lambda: None
        self.on_heartbeat: Callable[[int, BrokerIdAndEpoch], None] = lambda connection, whose: None
        self.on_fault: Callable[[str, Exception], None] = lambda what, problem: None
        own: dict[int, Handler] = {ApiKey.API_VERSIONS: self._api_versions, ApiKey.ENVELOPE: self._envelope}
        self._handlers: dict[int, Handler] = {
            **{key: self._of_controller for key in ApiKey if ControllerApis.serves(key)},
            **dict.fromkeys(OF_QUORUM, self._of_quorum),
            **{key: handler_for(key) for key in _AS_A_BROKER},
            **own,
        }
        self._handlers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = with_loggers(self._of_controller)

    # -- NodeApis ----------------------------------------------------------------------------------------------------

    def versions(self, api_key: int) -> tuple[int, int] | None:
        """See `NodeApis`."""
        return stable_versions(api_key) if api_key in self._handlers else None

    def handler(self, api_key: int) -> Handler:
        """See `NodeApis`."""
        handle = self._handlers[api_key]
        return handle if self._state.authorization is None else guarded(api_key, handle, CONTROLLER_RULES)

    def shortcut(self, api_key: int, version: int) -> Shortcut | None:
        """See `NodeApis`: there is none."""
        return None

    def recover(self, request: Message, now: float) -> None:
        """See `NodeApis`: the controller gives its leadership up when one of its operations fails."""

    # -- handlers ----------------------------------------------------------------------------------------------------

    def _of_quorum(self, broker: BrokerState, context: RequestContext, request: Message) -> Message | DelayedOperation:
        operation = _OfQuorum(self.forget)
        operation.number = self.ask_quorum(request, context.connection.listener, operation.complete)
        return operation if operation.result is None else operation.result

    def _of_controller(
        self, broker: BrokerState, context: RequestContext, request: Message
    ) -> Message | DelayedOperation:
        if request.API_KEY == ApiKey.BROKER_HEARTBEAT:
            heartbeat = cast("BrokerHeartbeatRequest", request)
            self.on_heartbeat(context.connection.id, BrokerIdAndEpoch(heartbeat.broker_id, heartbeat.broker_epoch))
        return _parked(self._answer(context, request, is_forwarded=False))

    def _answer(self, context: RequestContext, request: Message, *, is_forwarded: bool) -> Deferred[Message]:
        asked = ControllerRequestContext(
            context.instant,
            context.api_version,
            context.connection.principal,
            partial(self._state.client_quotas.mutate, context),
            is_forwarded,
            partial(self._may_describe_configs, context),
            context.connection.id,
        )
        self.turn_soon()
        return self._apis.handle(asked, request)

    def _may_describe_configs(self, context: RequestContext, topic: str) -> bool:
        authorization = self._state.authorization
        return authorization is None or authorization.allows(
            context, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic, tell=False
        )

    def _envelope(
        self, broker: BrokerState, context: RequestContext, request: EnvelopeRequest
    ) -> Message | DelayedOperation:
        return _parked(handle_envelope(partial(self._forwarded, context), request))

    def _forwarded(self, outer: RequestContext, forwarded: ForwardedRequest) -> Deferred[Message]:
        """Answer as if the client had asked here itself, and the broker had checked what brokers check."""
        connection = Connection(outer.connection.id, forwarded.client_host, outer.connection.listener)
        connection.principal = forwarded.principal
        context = RequestContext(forwarded.header, connection, outer.instant, outer.size)
        answer: Deferred[Message] = Deferred()

        def handle(broker: BrokerState, context: RequestContext, request: Message) -> Message | DelayedOperation:
            if request.API_KEY in OF_QUORUM:
                return self._of_quorum(broker, context, request)
            return _parked(self._answer(context, request, is_forwarded=True))

        def tell(response: Message | None) -> None:
            assert response is not None, "every request that is forwarded expects a response"
            response = response if context.amend is None else context.amend(response)
            if context.throttle and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = int(context.throttle * 1000 + 0.5)
            answer.complete(response)

        def fail(problem: Exception) -> None:
            self.on_fault(f"a forwarded {type(forwarded.message).NAME}", problem)
            version = forwarded.header.request_api_version
            tell(refused(forwarded.message, version, errors.UnknownServerError.code))

        key = forwarded.header.request_api_key
        guard = handle if self._state.authorization is None else guarded(key, handle, CONTROLLER_RULES)
        result = guard(self._state, context, forwarded.message)
        if isinstance(result, DelayedOperation):
            self._state.purgatory.park(result, tell, fail)
        else:
            tell(result)
        return answer

    def _api_versions(
        self, broker: BrokerState, context: RequestContext, request: ApiVersionsRequest
    ) -> ApiVersionsResponse:
        lowest, highest = stable_versions(ApiKey.API_VERSIONS)
        if context.api_version > highest:
            own = ApiVersion(ApiKey.API_VERSIONS, lowest, highest)
            return ApiVersionsResponse(error_code=errors.UnsupportedVersionError.code, api_keys=[own])
        if context.api_version >= _SOFTWARE_FROM and software_problem(context, request):
            return ApiVersionsResponse(error_code=errors.InvalidRequestError.code)
        image = self._apis.controller.committed_image
        lowest_level = 0 if context.api_version >= _OFF_ALLOWED_FROM else 1
        levels = {**image.features, "kraft.version": self._apis.controller.kraft_version}
        return ApiVersionsResponse(
            api_keys=[ApiVersion(int(key), *stable_versions(key)) for key in sorted(self._handlers)],
            supported_features=[
                SupportedFeatureKey(name, max(low, lowest_level), high)
                for name, (low, high) in CONTROLLER_FEATURES.items()
            ],
            finalized_features_epoch=image.offset,
            finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in levels.items() if level],
        )


class _OfQuorum(DelayedOperation):
    """A request that the quorum has, such as a Fetch that waits for records."""

    __slots__ = ("_forget", "number")

    def __init__(self, forget: Callable[[int], None]) -> None:
        super().__init__()
        self._forget = forget
        self.number = 0

    def on_cancel(self) -> None:
        """See `DelayedOperation`."""
        self._forget(self.number)


def _parked(deferred: Deferred[Any]) -> Message | DelayedOperation:
    """Return the response, or what waits for it."""
    if deferred.value is not None:
        return cast("Message", deferred.value)
    operation = DelayedOperation()

    def tell(response: Message | None, problem: errors.KafkaError | None) -> None:
        try:
            if problem is not None:
                operation.fail(problem)
            operation.complete(cast("Message", response))
        except Exception as fault:
            operation.fail(fault)
            raise

    deferred.then(tell)
    return operation


def _not_started(message: Message, listener: str, respond: Callable[[Message], None]) -> int:
    raise errors.IllegalStateError("the quorum has not begun")
