"""Clients that outlive the task: Spark reuses its Python workers, and a connection costs more than a small batch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from barnabas.errors import KafkaError


class Closeable(Protocol):
    """What a cached thing must offer."""

    def close(self) -> object:
        """Let go of its connections."""


C = TypeVar("C", bound=Closeable)


class ClientCache(Generic[C]):
    """Idle clients by their settings; one that is in use is not in here, so no two tasks can share one.

    Those of queries that have ended are closed: when others are given back for longer than `longest_idle`, or are too
    many. Spark itself ends a Python worker that was idle for a minute.
    """

    def __init__(
        self, most_idle: int = 8, longest_idle: float = 600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`most_idle`: beyond this the one unused for longest is closed; `longest_idle`: in seconds."""
        self._most_idle = most_idle
        self._longest_idle = longest_idle
        self._clock = clock
        self._idle: OrderedDict[Hashable, tuple[C, float]] = OrderedDict()
        self._lock = threading.Lock()

    def acquire(self, key: Hashable, create: Callable[[], C]) -> C:
        """Take an idle client with these settings, or make one; the caller owns it until it is released or closed."""
        with self._lock:
            found = self._idle.pop(key, None)
        return create() if found is None else found[0]

    def release(self, key: Hashable, client: C) -> None:
        """Give back a client in good order."""
        now = self._clock()
        with self._lock:
            unused = [self._idle.pop(key)[0]] if key in self._idle else []
            self._idle[key] = client, now
            while len(self._idle) > self._most_idle or next(iter(self._idle.values()))[1] < now - self._longest_idle:
                unused.append(self._idle.popitem(last=False)[1][0])
        for old in unused:
            # A client that is not used any more must not fail the task that gives this one back.
            with contextlib.suppress(KafkaError):
                old.close()

    def discard(self, key: Hashable) -> None:
        """Close the idle client with these settings, if there is one: it will not be wanted again."""
        with self._lock:
            found = self._idle.pop(key, None)
        if found is not None:
            with contextlib.suppress(KafkaError):
                found[0].close()

    def close(self) -> None:
        """Close the idle ones, for a process that does more than run tasks; those in use stay with their users."""
        with self._lock:
            idle = [client for client, _ in self._idle.values()]
            self._idle.clear()
        for client in idle:
            client.close()
