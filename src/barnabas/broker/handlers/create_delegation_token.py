"""CreateDelegationToken: a credential that a user has made for programs that act for him (KIP-48).

Versions 1-3. v2 flexible. v3 tokens of another owner than who asks (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.security.delegation_tokens import USER, may_ask
from barnabas.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest

API = 38
VERSIONS = (1, 3)

_REQUESTER_SINCE = 3


def handle(
    broker: BrokerState, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | DelayedOperation:
    """Make a token; its secret is told here, and to those who may describe it."""
    problem = problem_of(context, request)
    if problem is None and not broker.delegation_tokens.is_enabled:
        problem = errors.DelegationTokenDisabledError
    if problem is not None:
        return refusal(context, request, problem)
    return broker.in_turn(lambda: _create(broker, context, request))


def problem_of(context: RequestContext, request: CreateDelegationTokenRequest) -> type[errors.KafkaError] | None:
    """Return what is wrong with the request for whichever broker carries it out."""
    if not may_ask(context.connection):
        return errors.UnsupportedByAuthenticationError
    # Apache Kafka takes any type of owner, and a client with such a token is a user of that name.
    kinds = [request.owner_principal_type] if request.owner_principal_name else []
    if any(kind != USER for kind in [*kinds, *(one.principal_type for one in request.renewers)]):
        return errors.InvalidPrincipalTypeError
    return None


def owner_of(context: RequestContext, request: CreateDelegationTokenRequest) -> str:
    """Return whose token it is to be, such as `User:alice`."""
    if not request.owner_principal_name:
        return context.connection.principal
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def refusal(
    context: RequestContext, request: CreateDelegationTokenRequest, problem: type[errors.KafkaError]
) -> CreateDelegationTokenResponse:
    """Return the response that makes nothing."""
    response = _addressed(context, owner_of(context, request))
    response.error_code = problem.code
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = -1
    return response


def _create(
    broker: BrokerState, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | DelayedOperation:
    tokens, owner = broker.delegation_tokens, owner_of(context, request)
    renewers = [f"{one.principal_type}:{one.principal_name}" for one in request.renewers]
    times = (context.now_ms, request.max_lifetime_ms)
    token = tokens.new(broker.random, (owner, context.connection.principal), renewers, times)

    def answer(problem: errors.KafkaError | None) -> CreateDelegationTokenResponse:
        if problem is not None:
            return refusal(context, request, type(problem))
        response = _addressed(context, owner)
        response.issue_timestamp_ms, response.max_timestamp_ms = token.issue_ms, token.max_ms
        response.expiry_timestamp_ms = token.expiry_ms
        response.token_id, response.hmac = token.id, tokens.hmac(token.id)
        return response

    return broker.commit(lambda done: tokens.put(token, done), answer)


def _addressed(context: RequestContext, owner: str) -> CreateDelegationTokenResponse:
    kind, _, name = owner.partition(":")
    response = CreateDelegationTokenResponse(principal_type=kind, principal_name=name)
    if context.api_version >= _REQUESTER_SINCE:
        kind, _, name = context.connection.principal.partition(":")
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    return response
