"""Data that a task fetched beyond its range, kept in the Python worker for the task that reads on from there."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.client.consumer.fetching.fetched_data import FetchedData

MOST_BYTES, LONGEST_SECONDS = 64 << 20, 60.0


class _Kept(NamedTuple):
    fetched: tuple[FetchedData, ...]
    size: int
    until: float


class FetchedAheadCache:
    """Keeps data by who may read it (settings, topic-partition, topic id) and by its next offset.

    Only an optimisation: the next task often runs in another worker. Bounded by `most_bytes`, the oldest goes first;
    what is older than `longest` seconds is not used, for the log may have changed meanwhile.
    """

    def __init__(
        self,
        most_bytes: int = MOST_BYTES,
        longest: float = LONGEST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_bytes = most_bytes
        self._longest = longest
        self._clock = clock
        self._kept: OrderedDict[tuple[Hashable, int], _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self.size_in_bytes = 0

    def keep(self, reader: Hashable, offset: int, fetched: Sequence[FetchedData]) -> None:
        """Keep data that goes on from `offset`; what alone exceeds the bound is dropped."""
        size = sum(data.size_in_bytes for data in fetched)
        if not fetched or size > self._most_bytes:
            return
        with self._lock:
            self._drop((reader, offset))
            self._kept[reader, offset] = _Kept(tuple(fetched), size, self._clock() + self._longest)
            self.size_in_bytes += size
            while self.size_in_bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def take(self, reader: Hashable, offset: int) -> tuple[FetchedData, ...]:
        """Return the data that goes on from `offset`, if any; it is the caller's then."""
        with self._lock:
            kept = self._drop((reader, offset))
            return kept.fetched if kept is not None and self._clock() < kept.until else ()

    def _drop(self, key: tuple[Hashable, int]) -> _Kept | None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.size_in_bytes -= kept.size
        return kept
