"""Where OAUTHBEARER's tokens come from, and how long one is used: Kafka's login, without its thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from barnabas.errors import KafkaError, SaslAuthenticationError
from barnabas.network.exponential_backoff import RandomSource
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken, RefreshPolicy

log = logging.getLogger("barnabas.network")


class OAuthBearerLogin:
    """Keeps one client's token; `token` is called by worker threads, one of which fetches while the others wait.

    A token is needed only when a connection is made or its session renewed, so it is looked at then, and no thread
    waits for the time to refresh it. While a fetched one is valid, a failure to fetch the next is only logged.
    `clock_ms` gives epoch milliseconds.
    """

    def __init__(
        self,
        retrieve: Callable[[], OAuthBearerToken],
        policy: RefreshPolicy,
        clock_ms: Callable[[], int],
        random: RandomSource,
        client_id: str = "",
    ) -> None:
        self._client_id = client_id
        self._retrieve = retrieve
        self._policy = policy
        self._clock_ms = clock_ms
        self._random = random
        self._lock = threading.Lock()
        self._token: OAuthBearerToken | None = None
        self._refresh_at_ms = 0.0

    def token(self) -> OAuthBearerToken:
        """Return a valid token; blocks while one is fetched.

        Raises `SaslAuthenticationError` when there is none to be had with these credentials. Raises
        `KafkaError` when the token could not be fetched now.

        """
        with self._lock:
            now_ms = self._clock_ms()
            if self._token is not None and now_ms < self._refresh_at_ms:
                return self._token
            try:
                fetched = self._retrieve()
            except KafkaError as error:
                if self._token is None or (self._token.lifetime_ms or 0) <= now_ms:
                    raise
                log.warning(
                    "%s: the token could not be refreshed, the last one is still valid: %s", self._client_id, error
                )
                return self._token
            if fetched.lifetime_ms is not None and fetched.lifetime_ms <= now_ms:
                raise SaslAuthenticationError("the token that was fetched has expired already; compare the clocks")
            self._token = fetched
            self._refresh_at_ms = self._policy.refresh_at_ms(fetched, now_ms, self._random.random())
            return fetched
