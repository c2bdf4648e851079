"""SaslAuthenticate from a client that has authenticated, or need not: it is out of order here (KIP-152).

Versions 0-2. v1 session lifetime (KIP-368). v2 flexible. `SaslServerAuthenticator` takes those that belong to a login.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import IllegalSaslStateError
from barnabas.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest

API = 36
VERSIONS = (0, 2)


def handle(broker: BrokerState, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Say that it is out of order."""
    return SaslAuthenticateResponse(
        error_code=IllegalSaslStateError.code,
        error_message="SaslAuthenticate request received after successful authentication",
    )
