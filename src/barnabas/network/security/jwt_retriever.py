"""Fetches a token: by OAuth's client credentials grant from an HTTP endpoint, or from a file (KIP-768).

The only code here that waits; it runs as Work, in a worker thread.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import NamedTuple

from barnabas.errors import ConfigError, KafkaError, SaslAuthenticationError

# What will be no better next time, as in Kafka's HttpJwtRetriever.
_FINAL_STATUSES = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
_LARGEST_RESPONSE = 1024 * 1024


class ClientCredentials(NamedTuple):
    """What the token endpoint wants to know."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    does_urlencode: bool = False
    timeout: float = 10.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 10.0

    def __repr__(self) -> str:
        return f"ClientCredentials({self.url}, client id {self.client_id!r})"

    def request(self) -> urllib.request.Request:
        """The POST of RFC 6749, section 4.4.2."""
        parts = [self.client_id, self.client_secret]
        if self.does_urlencode:
            parts = [urllib.parse.quote_plus(part) for part in parts]
        form = {"grant_type": "client_credentials"}
        if self.scope:
            form["scope"] = self.scope
        authorization = base64.b64encode(":".join(parts).encode()).decode()
        return urllib.request.Request(  # noqa: S310  (check_token_url has seen it)
            self.url,
            urllib.parse.urlencode(form).encode(),
            {
                "Accept": "application/json",
                "Authorization": f"Basic {authorization}",
                "Content-Type": "application/x-www-form-urlencoded",
                "Cache-Control": "no-cache",
            },
        )


def check_token_url(url: str) -> str:
    """The URL, if tokens can be had from it.

    Raises:
        ConfigError: it is neither http, https nor file.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https", "file"):
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url={url!r} is not valid: it must be http, https or file")
    return url


def fetch_jwt(credentials: ClientCredentials, sleep: Callable[[float], None] = time.sleep) -> str:
    """A token from the endpoint, tried again with growing pauses until they add up to `retry_backoff_max` seconds.

    Raises:
        SaslAuthenticationError: the endpoint refuses these credentials.
        KafkaError: it cannot be reached or gives no token.
    """
    if credentials.url.startswith("file:"):
        return _read_file(credentials.url)
    waited, pause = 0.0, credentials.retry_backoff
    while True:
        try:
            return _post(credentials)
        except (OSError, HTTPException) as error:
            if waited >= credentials.retry_backoff_max:
                raise KafkaError(f"no token from {credentials.url}: {error}") from None
        sleep(pause)
        waited += max(pause, 0.001)
        pause = min(pause * 2, credentials.retry_backoff_max)


def _post(credentials: ClientCredentials) -> str:
    try:
        with urllib.request.urlopen(credentials.request(), timeout=credentials.timeout) as response:  # noqa: S310  (checked)
            body = response.read(_LARGEST_RESPONSE)
    except urllib.error.HTTPError as error:
        with error:
            if error.code not in _FINAL_STATUSES:
                raise OSError(f"HTTP status {error.code}") from None
            reason = _reason(error.read(_LARGEST_RESPONSE))
        raise SaslAuthenticationError(
            f"the token endpoint {credentials.url} refused the client credentials of {credentials.client_id!r}: "
            f"HTTP status {error.code}{reason}"
        ) from None
    return _token_in(body, credentials.url)


def _reason(body: bytes) -> str:
    """RFC 6749, section 5.2: `error` and `error_description`; nothing else of the body is shown."""
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(found, dict):
        return ""
    return "".join(f", {found[key]}" for key in ("error", "error_description") if isinstance(found.get(key), str))


def _token_in(body: bytes, url: str) -> str:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if isinstance(found, dict):
        token = found.get("access_token") or found.get("id_token")
        if isinstance(token, str) and token.strip():
            return token.strip()
    raise SaslAuthenticationError(f"the response of {url} is not JSON with an 'access_token'")


def _read_file(url: str) -> str:
    path = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaError(f"no token in {path}: {error}") from None
