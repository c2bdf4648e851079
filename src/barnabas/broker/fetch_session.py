"""Fetch sessions: what a client fetches is remembered, so that it sends and gets only what changes (KIP-227)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.fetch_target import FetchKey, FetchTarget

if TYPE_CHECKING:
    import random

    from barnabas.broker.replication.awaited_followers import Patience
    from barnabas.broker.replication.quiet_partitions import QuietPartitions

#: A session this long unused makes room for another one.
MIN_EVICTION_SECONDS = 120.0


class FetchSession:
    """One client's partitions, in the order in which they are read; `epoch` is what the next request must carry.

    `quiet` are those of a follower that a Fetch need not look at, and `patience` is how long one of it may wait; None
    for a consumer.
    """

    __slots__ = ("by_id", "epoch", "id", "last_used", "patience", "quiet", "targets")

    def __init__(self, id: int, by_id: bool, targets: OrderedDict[FetchKey, FetchTarget], now: float):
        self.id = id
        self.by_id = by_id
        self.epoch = 1
        self.targets = targets
        self.last_used = now
        self.quiet: QuietPartitions | None = None
        self.patience: Patience | None = None

    def close(self) -> None:
        """Let go of what the session holds elsewhere."""
        if self.quiet is not None:
            self.quiet.close()

    def advance(self, now: float) -> None:
        """Note that a request of the current epoch was taken up."""
        self.epoch = 1 if self.epoch == 2**31 - 1 else self.epoch + 1
        self.last_used = now


class FetchSessionCache:
    """At most `slots` sessions; when it is full, one that was not used lately has to go, or there is no new one."""

    __slots__ = ("_random", "_sessions", "_slots", "evictions")

    def __init__(self, slots: int, random: random.Random):
        self._slots = slots
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        #: How many had to go for others.
        self.evictions = 0

    @property
    def partitions(self) -> int:
        """How many partitions all sessions have together."""
        return sum(len(session.targets) for session in self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, by_id: bool, targets: OrderedDict[FetchKey, FetchTarget], now: float) -> FetchSession | None:
        """Return a new session, or None when there is no room for it."""
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.last_used <= MIN_EVICTION_SECONDS:
                return None
            self.remove(oldest.id)
            self.evictions += 1
        id = self._random.randint(1, 2**31 - 1)
        while id in self._sessions:
            id = self._random.randint(1, 2**31 - 1)
        session = self._sessions[id] = FetchSession(id, by_id, targets, now)
        return session

    def use(self, id: int, epoch: int, by_id: bool, now: float) -> FetchSession:
        """Return the session that a request continues. Raises the KafkaError that makes the client start a new one."""
        session = self._sessions.get(id)
        if session is None:
            raise errors.FetchSessionIdNotFoundError(f"There is no fetch session {id}.")
        if session.epoch != epoch:
            raise errors.InvalidFetchSessionEpochError(
                f"Fetch session {id} expects epoch {session.epoch}, the request has {epoch}."
            )
        if session.by_id != by_id:
            raise errors.FetchSessionTopicIdError(f"Fetch session {id} cannot go over to the other kind of topic ids.")
        session.advance(now)
        self._sessions.move_to_end(id)
        return session

    def remove(self, id: int) -> None:
        """Forget a session, if there is one."""
        session = self._sessions.pop(id, None)
        if session is not None:
            session.close()
