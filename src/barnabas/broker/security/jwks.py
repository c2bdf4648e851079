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
    from http.client import HTTPResponse

    from jwt import PyJWK, PyJWKSet

_SETTING = "sasl.oauthbearer.jwks.endpoint.url"
_LARGEST_RESPONSE = 1024 * 1024
_TIMEOUT = 10.0
_PIECE = 65536
#: A token that names an unknown key lets the keys be fetched at most so often, in seconds.
_SHORTEST_INTERVAL = 10.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Find = Callable[[str | None], Sequence["PyJWK"]]


class Patience(NamedTuple):
    """How often keys are fetched, and how an endpoint that fails is asked again; seconds."""

    refresh: float
    retry_backoff: float
    retry_backoff_max: float


class JwksEndpoints:
    """The keys of all listeners, each URL fetched by one thread.

    `waits`: new ones are there when `find_keys` returns; else the thread fetches them, and tokens that come before that
    are refused.
    """

    def __init__(self) -> None:
        self.waits = True
        self._there: weakref.WeakValueDictionary[tuple[str, Patience], RefreshingJwks] = weakref.WeakValueDictionary()

    def find_keys(self, url: str, patience: Patience, warn: Callable[[str], None]) -> Find:
        """Return what gives the key of an id, or all keys for None.

        Raises ConfigError for a URL that cannot be used, and where `waits` holds when there are no keys.
        """
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "file":
            file = CachedFile(_SETTING, urllib.request.url2pathname(parts.path), url, keys_of)
            return lambda key_id: _found(_now_in(file), key_id)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise ConfigError(
                f"{_SETTING}={url!r}: keys are had by https, from this machine by http, or from a file: URL"
            )
        found = self._there.get((url, patience))
        if found is None:
            found = RefreshingJwks(lambda: _fetched(url), patience, warn, waits=self.waits)
            self._there[url, patience] = found
        return found.find


def _now_in(file: CachedFile[PyJWKSet]) -> PyJWKSet:
    try:
        return file.get()
    except KafkaError as problem:
        raise ValueError(str(problem)) from None


def _found(keys: PyJWKSet | None, key_id: str | None) -> list[PyJWK]:
    return [] if keys is None else [key for key in keys.keys if key_id is None or key.key_id == key_id]


class RefreshingJwks:
    """Keys that `fetch` gives, which raises ValueError or OSError; `find` never waits.

    Raises ConfigError when it cannot at first, unless `waits` is False: then the thread is the first to fetch, too.
    """

    def __init__(
        self,
        fetch: Callable[[], PyJWKSet],
        patience: Patience,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        waits: bool = True,
    ) -> None:
        self._fetch = fetch
        self._patience = patience
        self._warn = warn
        self._clock = clock
        self._wanted = threading.Event()
        self._fetched_at = clock()
        self._keys: PyJWKSet | None = None
        if waits:
            try:
                self._keys = fetch()
            except (OSError, ValueError) as problem:
                raise ConfigError(f"{_SETTING}: no keys could be fetched: {problem}") from None
        # The thread ends when these keys are not used any more: settings that change make others.
        weakref.finalize(self, self._wanted.set)
        run = (weakref.ref(self), self._wanted, patience.refresh if waits else 0.0)
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
        except Exception as problem:  # noqa: BLE001 - no thread but this one will ever fetch keys again
            so_far = "refused" if self._keys is None else "verified by those that were fetched before"
            self._warn(f"{_SETTING}: no keys could be fetched: {problem}; tokens are {so_far}")
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
            body = _body(response)
    except urllib.error.HTTPError as error:
        with error:
            raise OSError(f"{url} answers with HTTP status {error.code}") from None
    except HTTPException as error:
        raise OSError(f"{url} cannot be read: {type(error).__name__}") from None
    return keys_of(body)


def _body(response: HTTPResponse) -> bytes:
    # The timeout of the socket is one for each piece, of which a slow server may send as many as it likes.
    deadline = time.monotonic() + _TIMEOUT
    parts: list[bytes] = []
    size = 0
    while part := response.read1(_PIECE):
        parts.append(part)
        size += len(part)
        if size > _LARGEST_RESPONSE:
            raise ValueError(f"its answer has more than {_LARGEST_RESPONSE} bytes")
        if time.monotonic() > deadline:
            raise OSError(f"its answer took longer than {_TIMEOUT:.0f} s")
    return b"".join(parts)
