"""Kafka's HttpJwtRetriever: asks an OAuth token endpoint for a token (RFC 6749, KIP-768, KIP-1139, KIP-1258).

The only code of the clients that speaks HTTP; it waits, so it runs as Work, in a worker thread.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, NamedTuple

from barnabas.errors import KafkaError, SaslAuthenticationError

# What will be no better next time, as in Kafka's HttpJwtRetriever.
_FINAL_STATUSES = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
_LARGEST_RESPONSE = 1024 * 1024
_LONGEST_REASON = 500
_SHORTEST_PAUSE = 0.001
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class TokenRequest(NamedTuple):
    """What is posted: the form's fields in order, and the header Authorization.

    `who` says in messages who asks; `secrets` are what no message may hold, should the endpoint repeat it.
    """

    form: dict[str, str]
    who: str
    secrets: tuple[str, ...]
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"TokenRequest({self.who})"


class TokenEndpoint(NamedTuple):
    """Where tokens are had from, and how patiently; durations are seconds. `shown` is the URL for messages."""

    url: str
    shown: str
    timeout: float = 10.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 10.0
    ssl_context: ssl.SSLContext | None = None


def client_secret_request(
    client_id: str, client_secret: str, scope: str | None, does_urlencode: bool, shown_id: str
) -> TokenRequest:
    """Return the client credentials grant, the client known by its secret (RFC 6749, section 4.4.2)."""
    parts = [client_id, client_secret]
    if does_urlencode:
        parts = [urllib.parse.quote_plus(part) for part in parts]
    authorization = base64.b64encode(":".join(parts).encode()).decode()
    form = {"grant_type": "client_credentials", **_scope(scope)}
    who = f"the client credentials of {shown_id}"
    return TokenRequest(form, who, (client_secret, parts[1], authorization), f"Basic {authorization}")


def client_assertion_request(client_id: str | None, assertion: str, scope: str | None, who: str) -> TokenRequest:
    """Return the client credentials grant, the client known by an assertion (RFC 7523, section 2.2; KIP-1258)."""
    form = {
        "client_assertion_type": _CLIENT_ASSERTION,
        "client_assertion": assertion,
        "grant_type": "client_credentials",
        **({"client_id": client_id} if client_id else {}),
        **_scope(scope),
    }
    return TokenRequest(form, who, (assertion,))


def jwt_bearer_request(assertion: str, scope: str | None, who: str) -> TokenRequest:
    """Return the JWT bearer grant (RFC 7523, section 2.1; KIP-1139)."""
    return TokenRequest({"grant_type": _JWT_BEARER, "assertion": assertion, **_scope(scope)}, who, (assertion,))


def _scope(scope: str | None) -> dict[str, str]:
    return {"scope": scope} if scope else {}


class HttpJwtRetriever:
    """Posts what `new_request` makes, anew for each attempt; one thread at a time may use it.

    `clock` gives seconds that only grow.
    """

    def __init__(
        self,
        endpoint: TokenEndpoint,
        new_request: Callable[[], TokenRequest],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._new_request = new_request
        self._clock = clock
        self._sleep = sleep
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if endpoint.ssl_context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=endpoint.ssl_context))
        self._opener = urllib.request.build_opener(*handlers)

    def retrieve(self) -> str:
        """Return a token; tried again with growing pauses until `retry_backoff_max` seconds have passed.

        Raises `SaslAuthenticationError` when the endpoint refuses the request, or its answer holds no token.
        Raises `KafkaError` when it cannot be reached, or the request cannot be made.

        """
        give_up_at = self._clock() + self._endpoint.retry_backoff_max
        pause = max(self._endpoint.retry_backoff, _SHORTEST_PAUSE)
        while True:
            request = self._new_request()
            try:
                return self._token_in(self._post(request))
            except (OSError, HTTPException) as error:
                left = give_up_at - self._clock()
                if left <= 0:
                    raise KafkaError(
                        f"no token from {self._endpoint.shown} for {request.who}: {_hidden(str(error), request)}"
                    ) from None
            self._sleep(min(pause, left))
            pause *= 2

    def _post(self, request: TokenRequest) -> bytes:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            "Cache-Control": "no-cache",
        }
        if request.authorization is not None:
            headers["Authorization"] = request.authorization
        body = urllib.parse.urlencode(request.form).encode()
        post = urllib.request.Request(self._endpoint.url, body, headers)  # noqa: S310  (the URL was checked)
        try:
            with self._opener.open(post, timeout=self._endpoint.timeout) as response:
                content: bytes = response.read(_LARGEST_RESPONSE)
                return content
        except urllib.error.HTTPError as error:
            with error:
                answer = f"HTTP status {error.code}{_hidden(_reason(error), request)}"
            if error.code not in _FINAL_STATUSES and not _is_redirect(error.code):
                raise OSError(answer) from None
        raise SaslAuthenticationError(f"the token endpoint {self._endpoint.shown} refused {request.who}: {answer}")

    def _token_in(self, body: bytes) -> str:
        found = _as_json(body)
        for name in ("access_token", "id_token"):
            token = found.get(name)
            if isinstance(token, str) and token.strip():
                return token.strip()
        raise SaslAuthenticationError(f"the response of {self._endpoint.shown} is not JSON with an 'access_token'")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST becomes a GET, for which no endpoint has a token, and takes the credentials elsewhere."""

    def redirect_request(self, *args: Any) -> None:
        return None


def _is_redirect(status: int) -> bool:
    return 300 <= status < 400


def _reason(error: urllib.error.HTTPError) -> str:
    """Return what RFC 6749, section 5.2, and Okta name the error and its description.

    Nothing else of the body is shown.
    """
    if _is_redirect(error.code):
        return ", a redirect, which is not followed: is the URL right?"
    found = _as_json(_body_of(error))
    names = ("error", "error_description") if "error" in found else ("errorCode", "errorSummary")
    reason = "".join(f", {found[name]}" for name in names if isinstance(found.get(name), str))
    return "".join(letter if letter.isprintable() else " " for letter in reason)


def _body_of(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_LARGEST_RESPONSE)
    except (OSError, HTTPException):
        return b""


def _as_json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _hidden(text: str, request: TokenRequest) -> str:
    for secret in request.secrets:
        text = text.replace(secret, "[hidden]") if secret else text
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
