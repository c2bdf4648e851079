"""DescribeDelegationToken: the tokens of some owners, or all that one may see, with their secrets (KIP-48).

Versions 1-3. v2 flexible. v3 who has asked for a token (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces
from barnabas.broker.security.delegation_tokens import may_ask, visible
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.security.delegation_tokens import DelegationToken
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest

API = 41
VERSIONS = (1, 3)

_REQUESTER_SINCE = 3
#: What describing a token takes, beside what a renewer does.
_WEIGHT = 4


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeDelegationTokenRequest
) -> Message | PiecewiseResponse:
    """Owners and renewers see their own, others what DESCRIBE of the token or DESCRIBE_TOKENS of the owner shows."""
    tokens, principal = broker.delegation_tokens, context.connection.principal
    if not may_ask(context.connection):
        return DescribeDelegationTokenResponse(error_code=errors.UnsupportedByAuthenticationError.code)
    if not tokens.is_enabled:
        return DescribeDelegationTokenResponse(error_code=errors.DelegationTokenDisabledError.code)
    owners = None
    if request.owners is not None:
        owners = frozenset(f"{one.principal_type}:{one.principal_name}" for one in request.owners)

    def may_see(token: DelegationToken) -> bool:
        asked = (
            (AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id),
            (AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner),
        )
        authorization = broker.authorization
        return authorization is None or any(authorization.allows(context, *one, tell=False) for one in asked)

    def make(token: DelegationToken) -> tuple[DescribedDelegationToken, int]:
        described = _described(token, tokens.hmac(token.id))
        if context.api_version >= _REQUESTER_SINCE:
            kind, name = _parts(token.requester)
            described.token_requester_principal_type, described.token_requester_principal_name = kind, name
        return described, _WEIGHT + len(token.renewers)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(DescribeDelegationTokenResponse, "tokens", context.api_version),
        visible(tokens.all(), principal, owners, may_see),
        make,
        lambda described: DescribeDelegationTokenResponse(tokens=described),
    )


def _described(token: DelegationToken, secret: bytes) -> DescribedDelegationToken:
    kind, name = _parts(token.owner)
    return DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=secret,
        renewers=[DescribedDelegationTokenRenewer(*_parts(one)) for one in token.renewers],
    )


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
