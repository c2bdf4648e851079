"""ExpireDelegationToken: let a token end sooner, or at once (KIP-48).

Versions 1-2. v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.security.delegation_tokens import DelegationToken
    from barnabas.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest

API = 40
VERSIONS = (1, 2)


def handle(
    broker: BrokerState, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse | DelayedOperation:
    """End it after a period, or with a negative one now; sessions that it has opened last until they are renewed."""
    return broker.in_turn(lambda: _expire(broker, context, request))


def refusal(code: int) -> ExpireDelegationTokenResponse:
    """Return the response that changes nothing."""
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)


def _expire(
    broker: BrokerState, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse | DelayedOperation:
    tokens = broker.delegation_tokens
    try:
        token = tokens.to_change(context.connection, bytes(request.hmac))
    except errors.KafkaError as problem:
        return refusal(problem.code)
    period, now_ms = request.expiry_time_period_ms, context.now_ms
    if period < 0:
        return _change(broker, None, token, now_ms)
    if token.is_expired(now_ms):
        return refusal(errors.DelegationTokenExpiredError.code)
    expiry_ms = min(token.max_ms, now_ms + period)
    return _change(broker, token._replace(expiry_ms=expiry_ms), token, expiry_ms)


def _change(
    broker: BrokerState, changed: DelegationToken | None, token: DelegationToken, expiry_ms: int
) -> ExpireDelegationTokenResponse | DelayedOperation:
    tokens = broker.delegation_tokens

    def answer(problem: errors.KafkaError | None) -> ExpireDelegationTokenResponse:
        return refusal(problem.code) if problem else ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)

    if changed is None:
        return broker.commit(lambda done: tokens.remove([token], done), answer)
    return broker.commit(lambda done: tokens.put(changed, done), answer)
