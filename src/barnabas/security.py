"""What a program gives to a client that authenticates by tokens (OAUTHBEARER)."""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.network.security.oauth_bearer_token import OAuthBearerToken

__all__ = [
    "OAuthBearerToken",
]

_HOMES = {
    "barnabas.network.security.oauth_bearer_token": "OAuthBearerToken",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
