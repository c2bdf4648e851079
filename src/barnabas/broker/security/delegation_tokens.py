"""Delegation tokens: what a user has made for programs that act for him (KIP-48, KIP-373; DelegationTokenManager).

The metadata keep who may use a token and until when. Its password is an HMAC of its id by `delegation.token.secret.key`
and is kept nowhere; what a SCRAM exchange checks it by takes some milliseconds to make, and is made beside the loop.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from barnabas import errors
from barnabas.broker.security.sasl_server import Identity
from barnabas.broker.security.scram_sasl_server import FindUser, ScramUser
from barnabas.network.security import scram
from barnabas.network.security.scram import StoredCredential
from barnabas.protocol.kafka_uuid import random_uuid, to_text

if TYPE_CHECKING:
    import random

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata, Done
    from barnabas.broker.metadata.metadata_store import Value
    from barnabas.broker.request_context import Connection
    from barnabas.broker.storage_threads import Storage

USER = "User"
_TOKENS = "delegation_tokens/"
_SALT_SIZE = 26


class DelegationToken(NamedTuple):
    """A token: principals such as `User:alice`, times in epoch milliseconds. It ends at `expiry_ms`, or is renewed.

    It cannot be renewed beyond `max_ms`.
    """

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Whether it is of no use any more."""
        return self.expiry_ms < now_ms or self.max_ms < now_ms

    def is_of(self, principal: str) -> bool:
        """Whether a principal is its owner, or may renew it."""
        return principal == self.owner or principal in self.renewers


#: Stores tokens, takes away those of some ids, and tells what has become of it.
WriteTokens: TypeAlias = "Callable[[Sequence[DelegationToken], Sequence[str], Done], None]"


class DelegationTokens:
    """The tokens of the metadata; `finder` is what a SCRAM exchange looks them up by.

    `write` stores them elsewhere, from where they come into the metadata.
    """

    def __init__(
        self, config: BrokerConfig, metadata: ClusterMetadata, storage: Storage, write: WriteTokens | None = None
    ) -> None:
        self._write = write
        self._config = config
        self._metadata = metadata
        self._storage = storage
        secret = config["delegation.token.secret.key"]
        self._secret: bytes = b"" if secret is None else secret.value.encode()
        self._by_id: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[str, dict[str, StoredCredential]] = {}
        if self.is_enabled:
            self.values_changed(_TOKENS + id for id in metadata.values(_TOKENS))
            metadata.on_values_changed.append(self.values_changed)

    @property
    def is_enabled(self) -> bool:
        """Whether there are tokens at all: where `delegation.token.secret.key` is set."""
        return bool(self._secret)

    def values_changed(self, keys: Iterable[str]) -> None:
        """Take over tokens that are among the records that have changed."""
        for key in keys:
            if key.startswith(_TOKENS):
                self._apply(key.removeprefix(_TOKENS), self._metadata.value(key))

    def _apply(self, id: str, value: Value | None) -> None:
        if value is None:
            self._by_id.pop(id, None)
            self._ids.pop(self.hmac(id), None)
            self._credentials.pop(id, None)
            return
        is_new = id not in self._by_id
        self._by_id[id] = _token(id, value)
        if is_new:
            self._ids[self.hmac(id)] = id
            self._storage.submit(lambda: self._prepare_beside(id), lambda: None)

    # -- logins ------------------------------------------------------------------------------------------------------

    def finder(self, mechanism: str) -> FindUser:
        """Return what finds the tokens of a mechanism; one that has expired the exchange refuses."""

        def find(id: str, is_token: bool) -> ScramUser | None:
            token = self._by_id.get(id) if is_token else None
            if token is None:
                return None
            owner = token.owner.removeprefix(f"{USER}:")
            return ScramUser(self._prepare(id)[mechanism], Identity(owner, token.expiry_ms, is_token=True))

        return find

    def _prepare_beside(self, id: str) -> None:
        self._prepare(id)

    def _prepare(self, id: str) -> dict[str, StoredCredential]:
        """Return what proofs of a token are checked by, made at the first time; from any thread."""
        found = self._credentials.get(id)
        if found is None:
            found = self._credentials[id] = {name: self._credential(id, name) for name in scram.HASHES}
        return found

    def _credential(self, id: str, mechanism: str) -> StoredCredential:
        salt = hmac.digest(self._secret, f"{mechanism}/{id}".encode(), hashlib.sha256)[:_SALT_SIZE]
        password = b64encode(self.hmac(id))
        salted = scram.salted_password(mechanism, password, salt, scram.FEWEST_ITERATIONS)
        return scram.stored_credential(mechanism, salted, salt, scram.FEWEST_ITERATIONS)

    # -- what handlers ask -------------------------------------------------------------------------------------------

    def hmac(self, id: str) -> bytes:
        """Return a token's secret, as Apache Kafka makes it of the same key."""
        return hmac.digest(self._secret, id.encode(), hashlib.sha512)

    def by_hmac(self, secret: bytes) -> DelegationToken | None:
        """Return the token that has this secret."""
        id = self._ids.get(secret)
        return None if id is None else self._by_id[id]

    def to_change(self, connection: Connection, secret: bytes, living_at: int | None = None) -> DelegationToken:
        """Return the token of this secret, for those who may renew and expire it; one that lives at a time (epoch ms).

        Raises `KafkaError` for all others.
        """
        if not may_ask(connection):
            raise errors.UnsupportedByAuthenticationError()
        if not self.is_enabled:
            raise errors.DelegationTokenDisabledError()
        token = self.by_hmac(secret)
        if token is None:
            raise errors.DelegationTokenNotFoundError()
        if living_at is not None and token.is_expired(living_at):
            raise errors.DelegationTokenExpiredError()
        if not token.is_of(connection.principal):
            raise errors.DelegationTokenOwnerMismatchError()
        return token

    def all(self) -> list[DelegationToken]:
        """Return all tokens that were not ended, in the order of their ids."""
        return [self._by_id[id] for id in sorted(self._by_id)]

    def new(
        self, random: random.Random, principals: tuple[str, str], renewers: Iterable[str], times: tuple[int, int]
    ) -> DelegationToken:
        """Return a token that is not stored yet, of an owner and requester, at a time, for so many ms (0: the most)."""
        owner, requester = principals
        now_ms, lifetime = times
        longest = self._config.get_int("delegation.token.max.lifetime.ms")
        max_ms = now_ms + (min(longest, lifetime) if lifetime > 0 else longest)
        expiry_ms = min(max_ms, now_ms + self._usual_period)
        return DelegationToken(
            to_text(random_uuid(random)), owner, requester, tuple(renewers), now_ms, max_ms, expiry_ms
        )

    def renewed(self, token: DelegationToken, now_ms: int, period: int) -> DelegationToken:
        """Return a token that lives for another period (ms; 0: as usual)."""
        lasts = min(self._usual_period, period) if period > 0 else self._usual_period
        return token._replace(expiry_ms=min(token.max_ms, now_ms + lasts))

    @property
    def _usual_period(self) -> int:
        return self._config.get_int("delegation.token.expiry.time.ms")

    def put(self, token: DelegationToken, done: Done) -> None:
        """Store a token, new or changed."""
        if self._write is not None:
            self._write([token], [], done)
            return
        self._metadata.put_values({_TOKENS + token.id: _value(token)}, done)

    def remove(self, tokens: Iterable[DelegationToken], done: Done) -> None:
        """End tokens."""
        if self._write is not None:
            self._write([], [token.id for token in tokens], done)
            return
        self._metadata.put_values({_TOKENS + token.id: None for token in tokens}, done)


class DelegationTokenExpiry:
    """Takes away what has expired, every `delegation.token.expiry.check.interval.ms`; a service of the dispatcher.

    In a cluster the controller does that: `is_ours` tells where this broker is it.
    """

    def __init__(
        self,
        tokens: DelegationTokens,
        metadata: ClusterMetadata,
        config: BrokerConfig,
        is_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self._is_ours = is_ours
        self._tokens = tokens
        self._metadata = metadata
        self._interval = config.get_seconds("delegation.token.expiry.check.interval.ms")
        self._next = 0.0 if tokens.is_enabled else inf

    def next_deadline(self) -> float:
        """When it is due."""
        return self._next

    def tick(self, instant: Instant) -> None:
        """Look once; what cannot be stored now is tried the next time."""
        self._next = instant.now + self._interval
        if not self._is_ours():
            return
        expired = [token for token in self._tokens.all() if token.is_expired(instant.now_ms)]
        if not expired:
            return
        if self._metadata.is_committing:
            self._metadata.when_committed(lambda: self.tick(instant))
        else:
            self._tokens.remove(expired, lambda problem: None)


def may_ask(connection: Connection) -> bool:
    """Whether requests about tokens may come from here: no token makes tokens, nor does an anonymous client."""
    kind = connection.security_protocol
    is_anonymous = kind == "PLAINTEXT" or (kind == "SSL" and connection.principal == f"{USER}:ANONYMOUS")
    return not (connection.is_token_authenticated or is_anonymous)


def with_tokens(of_users: FindUser, of_tokens: FindUser) -> FindUser:
    """Return what finds both, each by its own name."""
    return lambda name, is_token: (of_tokens if is_token else of_users)(name, is_token)


#: Whether a principal may see a token that is not its own.
MaySee = Callable[[DelegationToken], bool]


def visible(
    tokens: Iterable[DelegationToken], principal: str, owners: frozenset[str] | None, may_see: MaySee
) -> Iterator[DelegationToken]:
    """Yield the tokens of these owners or renewers (None: of all) that a principal may see."""
    for token in tokens:
        is_asked = owners is None or token.owner in owners or not owners.isdisjoint(token.renewers)
        if is_asked and (token.is_of(principal) or may_see(token)):
            yield token


def _token(id: str, value: Value) -> DelegationToken:
    times = (value["issue_ms"], value["max_ms"], value["expiry_ms"])
    return DelegationToken(id, value["owner"], value["requester"], tuple(value["renewers"]), *times)


def _value(token: DelegationToken) -> Value:
    value = {**token._asdict(), "renewers": list(token.renewers)}
    del value["id"]
    return value
