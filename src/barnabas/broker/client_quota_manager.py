"""Client quotas: who may use how much, how much each client has used, how long it has to wait (KIP-13, KIP-219).

An entity is a user, a client id, both, or the default of either; an address for `connection_creation_rate`. Use is
measured as Apache Kafka does: a rate over `quota.window.num` windows of `quota.window.size.seconds`, and a bucket of
tokens for changes of topics (KIP-599).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.config.quota_config import CONNECTIONS, MUTATION
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata, QuotaEntity
    from barnabas.broker.request_context import RequestContext
    from barnabas.config.config import Config

USER, CLIENT_ID, IP = "user", "client-id", "ip"

#: The order in which quotas are looked for, the most specific first: (user, client id), each as "its own name", "the
#: default" or "none in the entity".
_OWN, _DEFAULT, _NONE = range(3)
_PRECEDENCE = (
    (_OWN, _OWN), (_OWN, _DEFAULT), (_OWN, _NONE),
    (_DEFAULT, _OWN), (_DEFAULT, _DEFAULT), (_DEFAULT, _NONE),
    (_NONE, _OWN), (_NONE, _DEFAULT),
)  # fmt: skip

#: From here on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_FROM: dict[int, int] = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
#: Who used nothing for so long is forgotten, in seconds (Kafka's InactiveSensorExpirationTimeSeconds).
_INACTIVE = 3600.0
#: Client ids can be invented without end: of more than so many the half that was used longest ago is forgotten.
MAX_CLIENTS = 10_000


class Rate:
    """A sum over the last windows of time, per second (Kafka's Rate)."""

    __slots__ = ("_samples", "_size", "_windows")

    def __init__(self, windows: int, size: float):
        self._windows = windows
        self._size = size
        self._samples: deque[list[float]] = deque()

    @property
    def used_at(self) -> float:
        """When it was used last, to a window."""
        return self._samples[-1][0] if self._samples else 0.0

    def record(self, value: float, now: float) -> None:
        """Add `value`, which may be negative to take back what was added."""
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._size:
            samples.append([now, 0.0])
        samples[-1][1] += value
        self._forget(now)

    def throttle(self, limit: float, now: float) -> float:
        """How long to wait until the rate is back at `limit` if nothing more comes, in seconds."""
        self._forget(now)
        if not self._samples:
            return 0.0
        elapsed = now - self._samples[0][0]
        # As if all windows but the newest had passed, so that the first seconds do not look like a burst.
        missing = self._windows - 1 - int(elapsed / self._size)
        elapsed += max(0, missing) * self._size
        rate = sum(value for _, value in self._samples) / elapsed if elapsed else 0.0
        return (rate - limit) / limit * elapsed if rate > limit else 0.0

    def _forget(self, now: float) -> None:
        samples = self._samples
        while samples and now - samples[0][0] >= self._windows * self._size:
            samples.popleft()


class TokenBucket:
    """Tokens that come at the rate of the limit, up to a burst; it may go below zero once (Kafka's TokenBucket)."""

    __slots__ = ("_at", "_burst_seconds", "_tokens")

    def __init__(self, burst_seconds: float, limit: float, now: float):
        self._burst_seconds = burst_seconds
        self._tokens = limit * burst_seconds
        self._at = now

    @property
    def used_at(self) -> float:
        """When it was used last."""
        return self._at

    def throttle(self, limit: float, now: float) -> float:
        """How long until there is a token again, in seconds."""
        self._tokens = min(self._burst_seconds * limit, self._tokens + limit * (now - self._at))
        self._at = now
        return -self._tokens / limit if self._tokens < 0 else 0.0

    def take(self, count: float) -> None:
        """Use tokens; `throttle` has been asked before."""
        self._tokens -= count


class _Client:
    """What one user with one client id may and did use; several share a measure where they share a quota."""

    __slots__ = ("limits", "measures", "used_at")

    def __init__(self, limits: dict[str, tuple[float, QuotaEntity]]):
        self.limits = limits
        self.measures: dict[str, Rate | TokenBucket] = {}
        self.used_at = 0.0


class ClientQuotas:
    """The quotas of one broker in force. `enabled` is False as long as there are none: then nothing is measured."""

    __slots__ = ("_clients", "_measures", "_metadata", "_swept_at", "_windows", "enabled", "window_seconds")

    def __init__(self, metadata: ClusterMetadata, config: Config):
        self._metadata = metadata
        self._windows = config.get_int("quota.window.num")
        self.window_seconds = float(config.get_int("quota.window.size.seconds"))
        self._clients: dict[tuple[str, str], _Client] = {}
        self._measures: dict[tuple[str, tuple[str | None, str | None]], Rate | TokenBucket] = {}
        self._swept_at = 0.0
        self.enabled = bool(metadata.client_quotas)

    def changed(self) -> None:
        """Note that the quotas in the metadata are others now; what was used stays counted."""
        self._clients.clear()
        self.enabled = bool(self._metadata.client_quotas)

    def limit(self, user: str, client_id: str, quota: str) -> float | None:
        """Return the limit that holds for a user with a client id; None without one."""
        found = self._client(user, client_id, 0.0).limits.get(quota)
        return found[0] if found is not None else None

    def connection_rate(self, address: str) -> float | None:
        """How many connections an address may make in a second; None: as many as it likes."""
        quotas = self._metadata.client_quotas
        for name in (address, None):
            found = quotas.get(frozenset(((IP, name),)), {}).get(CONNECTIONS)
            if found is not None:
                return found
        return None

    def use(self, context: RequestContext, quota: str, amount: float, now: float) -> float:
        """Count what a client used of a quota; gives how long it is to wait now, in seconds."""
        client = self._of(context, now)
        limit = client.limits.get(quota)
        if limit is None:
            return 0.0
        rate = self._rate(context, client, quota)
        rate.record(amount, now)
        return rate.throttle(limit[0], now)

    def give_back(self, context: RequestContext, quota: str, amount: float, now: float) -> None:
        """Take back what was counted and is not used after all."""
        client = self._of(context, now)
        if quota in client.limits:
            self._rate(context, client, quota).record(-amount, now)

    def most_at_once(self, context: RequestContext, quota: str, now: float) -> float:
        """More than this would be throttled even if nothing was used before; infinity without a quota."""
        limit = self._of(context, now).limits.get(quota)
        return limit[0] * (self._windows - 1) * self.window_seconds if limit is not None else inf

    def mutate(self, context: RequestContext, count: float) -> None:
        """Count changes of topics (KIP-599); how long the client is to wait goes into `context.throttle`.

        For clients that know the error: raises ThrottlingQuotaExceededError when the tokens are used up already; what
        is asked for is not to be done then.
        """
        if not self.enabled:
            return
        now, strict = context.now, context.api_version >= _STRICT_FROM.get(context.api_key, 0)
        client = self._of(context, now)
        limit = client.limits.get(MUTATION)
        if limit is None:
            return
        bucket = client.measures.get(MUTATION)
        if bucket is None:
            key = _measure_key(context, MUTATION, limit[1])
            bucket = self._measures.setdefault(key, TokenBucket(self._windows * self.window_seconds, limit[0], now))
            client.measures[MUTATION] = bucket
        assert isinstance(bucket, TokenBucket)
        wait = bucket.throttle(limit[0], now)
        if strict and wait > 0:
            context.throttle = max(context.throttle, wait)
            raise errors.ThrottlingQuotaExceededError("The throttling quota has been exceeded.")
        bucket.take(count)
        if not strict:
            context.throttle = max(context.throttle, bucket.throttle(limit[0], now))

    def _of(self, context: RequestContext, now: float) -> _Client:
        return self._client(user_of(context), context.client_id or "", now)

    def _client(self, user: str, client_id: str, now: float) -> _Client:
        client = self._clients.get((user, client_id))
        if client is None:
            self._sweep(now)
            if len(self._clients) >= MAX_CLIENTS:
                self._forget(sorted(self._clients, key=lambda key: self._clients[key].used_at)[: MAX_CLIENTS // 2], now)
            client = self._clients[user, client_id] = _Client(self._limits(user, client_id))
        client.used_at = now
        return client

    def _rate(self, context: RequestContext, client: _Client, quota: str) -> Rate:
        rate = client.measures.get(quota)
        if rate is None:
            key = _measure_key(context, quota, client.limits[quota][1])
            rate = client.measures[quota] = self._measures.setdefault(key, Rate(self._windows, self.window_seconds))
        assert isinstance(rate, Rate)
        return rate

    def _limits(self, user: str, client_id: str) -> dict[str, tuple[float, QuotaEntity]]:
        found: dict[str, tuple[float, QuotaEntity]] = {}
        quotas = self._metadata.client_quotas
        for for_user, for_client in _PRECEDENCE:
            entity = frozenset(
                (kind, None if how == _DEFAULT else name)
                for kind, name, how in ((USER, user, for_user), (CLIENT_ID, client_id, for_client))
                if how != _NONE
            )
            for quota, value in quotas.get(entity, {}).items():
                found.setdefault(quota, (value, entity))
        return found

    def _sweep(self, now: float) -> None:
        if now - self._swept_at >= _INACTIVE:
            self._swept_at = now
            self._forget([key for key, client in self._clients.items() if now - client.used_at > _INACTIVE], now)

    def _forget(self, keys: list[tuple[str, str]], now: float) -> None:
        for key in keys:
            del self._clients[key]
        kept = {id(measure) for client in self._clients.values() for measure in client.measures.values()}
        # What all client ids of a user share outlives them: otherwise ids that are invented would lift its quota.
        self._measures = {
            key: measure
            for key, measure in self._measures.items()
            if id(measure) in kept or (key[1][1] is None and now - measure.used_at <= _INACTIVE)
        }


def user_of(context: RequestContext) -> str:
    """Return the user's name as quotas have it."""
    return context.connection.principal.partition(":")[2]


def _measure_key(context: RequestContext, quota: str, entity: QuotaEntity) -> tuple[str, tuple[str | None, str | None]]:
    # All clients of a user share its quota; with a quota for client ids each id has its own, also by the default.
    kinds: Mapping[str, str | None] = dict(entity)
    user = user_of(context) if USER in kinds else None
    return quota, (user, (context.client_id or "") if CLIENT_ID in kinds else None)
