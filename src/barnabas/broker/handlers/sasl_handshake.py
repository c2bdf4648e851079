"""SaslHandshake from a client that has authenticated, or need not: it is out of order here (KIP-43, KIP-368).

Versions 0-1. v1 tokens travel in SaslAuthenticate (KIP-152). `SaslServerAuthenticator` takes those that belong to a
login.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import IllegalSaslStateError
from barnabas.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

API = 17
VERSIONS = (0, 1)


def handle(broker: BrokerState, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Say that it is out of order."""
    return SaslHandshakeResponse(error_code=IllegalSaslStateError.code)
