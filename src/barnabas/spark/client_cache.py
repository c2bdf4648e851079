"""Clients that outlive the task: Spark reuses its Python workers, and a connection costs more than a small batch."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Closeable(Protocol):
    """What a cached thing must offer."""

    def close(self) -> object:
        """Let go of its connections."""


C = TypeVar("C", bound=Closeable)


class ClientCache(Generic[C]):
    """Idle clients by their settings; one that is in use is not in here, so no two tasks can share one."""

    def __init__(self, most_idle: int = 8) -> None:
        """`most_idle`: beyond this the one unused for longest is closed."""
        self._most_idle = most_idle
        self._idle: OrderedDict[Hashable, C] = OrderedDict()
        self._lock = threading.Lock()

    def acquire(self, key: Hashable, create: Callable[[], C]) -> C:
        """Take an idle client with these settings, or make one; the caller owns it until it is released or closed."""
        with self._lock:
            found = self._idle.pop(key, None)
        return create() if found is None else found

    def release(self, key: Hashable, client: C) -> None:
        """Give back a client in good order."""
        with self._lock:
            too_many = [self._idle.pop(key)] if key in self._idle else []
            self._idle[key] = client
            if len(self._idle) > self._most_idle:
                too_many.append(self._idle.popitem(last=False)[1])
        for old in too_many:
            old.close()

    def close(self) -> None:
        """Close the idle ones, for a process that does more than run tasks; those in use stay with their users."""
        with self._lock:
            idle = list(self._idle.values())
            self._idle.clear()
        for client in idle:
            client.close()
