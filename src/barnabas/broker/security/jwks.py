"""Where the keys come from that tokens are verified by: a file or a URL of `sasl.oauthbearer.jwks.endpoint.url`.

A file is read again when it has changed. A URL is asked in a thread of its own: every
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, and sooner for a key that is not known, but not more often than every few
seconds, however many tokens name unknown keys.
"""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import weakref
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.security.broker_jwt_validator import keys_of
from barnabas.errors import ConfigError, KafkaError
from barnabas.network.security.cached_file import CachedFile

if TYPE_CHECKING:
    from jwt import PyJWK, PyJWKSet

_SETTING = "sasl.oauthbearer.jwks.endpoint.url"
_LARGEST_RESPONSE = 1024 * 1024
_TIMEOUT = 10.0
#: A token that names an unknown key lets the keys be fetched at most so often, in seconds.
_SHORTEST_INTERVAL = 10.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Find = Callable[[str | None], Sequence["PyJWK"]]


class Patience(NamedTuple):
    """How often keys are fetched, and how an endpoint that fails is asked again; seconds."""

    refresh: float
    retry_backoff: float
    retry_backoff_max: float


def find_keys(url: str, patience: Patience, warn: Callable[[str], None]) -> Find:
    """Return what gives the key of an id, or all keys for None. Raises ConfigError when there are none at first."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        file = CachedFile(_SETTING, urllib.request.url2pathname(parts.path), url, keys_of)
        return lambda key_id: _found(_now_in(file), key_id)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ConfigError(f"{_SETTING}={url!r}: keys are had by https, from this machine by http, or from a file: URL")
    return RefreshingJwks(lambda: _fetched(url), patience, warn).find


def _now_in(file: CachedFile[PyJWKSet]) -> PyJWKSet:
    try:
        return file.get()
    except KafkaError as problem:
        raise ValueError(str(problem)) from None


def _found(keys: PyJWKSet, key_id: str | None) -> list[PyJWK]:
    return [key for key in keys.keys if key_id is None or key.key_id == key_id]


class RefreshingJwks:
    """Keys that `fetch` gives, which raises ValueError or OSError. Raises ConfigError when it cannot at first.

    `find` never waits.
    """

    def __init__(
        self,
        fetch: Callable[[], PyJWKSet],
        patience: Patience,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._patience = patience
        self._warn = warn
        self._clock = clock
        self._wanted = threading.Event()
        self._fetched_at = clock()
        try:
            self._keys = fetch()
        except (OSError, ValueError) as problem:
            raise ConfigError(f"{_SETTING}: no keys could be fetched: {problem}") from None
        # The thread ends when these keys are not used any more: settings that change make others.
        weakref.finalize(self, self._wanted.set)
        run = (weakref.ref(self), self._wanted, patience.refresh)
        threading.Thread(target=_refresh, args=run, name="jwks-refresh", daemon=True).start()

    def find(self, key_id: str | None) -> list[PyJWK]:
        """Return the keys of an id; for an unknown one they are fetched again soon, for the client's next attempt."""
        found = _found(self._keys, key_id)
        if not found and self._clock() - self._fetched_at >= _SHORTEST_INTERVAL:
            self._wanted.set()
        return found

    def refresh(self, pause: float) -> float:
        """Fetch the keys; gives the seconds until the next time, where `pause` were those until this one."""
        self._fetched_at = self._clock()
        try:
            self._keys = self._fetch()
        except (OSError, ValueError) as problem:
            self._warn(f"{_SETTING}: {problem}; tokens are verified by the keys that were fetched before")
            doubled = pause * 2 if pause < self._patience.refresh else self._patience.retry_backoff
            return min(max(doubled, 0.1), self._patience.retry_backoff_max, self._patience.refresh)
        return self._patience.refresh


def _refresh(of: weakref.ref[RefreshingJwks], wanted: threading.Event, pause: float) -> None:
    while True:
        wanted.wait(pause)
        wanted.clear()
        keys = of()
        if keys is None:
            return
        pause = keys.refresh(pause)
        del keys


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys are trusted because of where they come from."""

    def redirect_request(self, *args: Any) -> None:
        return None


def _fetched(url: str) -> PyJWKSet:
    opener = urllib.request.build_opener(_NoRedirects())
    try:
        with opener.open(url, timeout=_TIMEOUT) as response:
            body: bytes = response.read(_LARGEST_RESPONSE + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise OSError(f"{url} answers with HTTP status {error.code}") from None
    except HTTPException as error:
        raise OSError(f"{url} cannot be read: {type(error).__name__}") from None
    if len(body) > _LARGEST_RESPONSE:
        raise ValueError(f"{url} has more than {_LARGEST_RESPONSE} bytes")
    return keys_of(body)
