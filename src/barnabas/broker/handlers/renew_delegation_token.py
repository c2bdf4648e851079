"""RenewDelegationToken: let a token live on, up to its longest lifetime (KIP-48).

Versions 1-2. v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest

API = 39
VERSIONS = (1, 2)


def handle(
    broker: BrokerState, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse | DelayedOperation:
    """Renew it, if it has not expired and who asks is its owner or one of its renewers; no ACL gives that right."""
    return broker.in_turn(lambda: _renew(broker, context, request))


def refusal(code: int) -> RenewDelegationTokenResponse:
    """Return the response that renews nothing."""
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)


def _renew(
    broker: BrokerState, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse | DelayedOperation:
    tokens = broker.delegation_tokens
    try:
        token = tokens.to_change(context.connection, bytes(request.hmac), context.now_ms)
    except errors.KafkaError as problem:
        return refusal(problem.code)
    renewed = tokens.renewed(token, context.now_ms, request.renew_period_ms)

    def answer(problem: errors.KafkaError | None) -> RenewDelegationTokenResponse:
        if problem is not None:
            return refusal(problem.code)
        return RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiry_ms)

    return broker.commit(lambda done: tokens.put(renewed, done), answer)
