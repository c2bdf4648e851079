# cython: language_level=3, annotation_typing=False
"""Segments: a store of times in pieces, so that what is too old goes at once. Source: Kafka's AbstractSegments.

C types are in `segments.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Iterator
from operator import itemgetter

from barnabas.streams.serdes.window_keys import MAX_LONG
from barnabas.streams.state.memory import Backend

if not cython.compiled:
    from barnabas.streams.state.memory import OrderedBytes

#: Tells whether an entry belongs to what is asked for.
Accept = Callable[[bytes], bool]

_NUMBER = itemgetter(0)


@cython.final
@cython.cclass
class Segments:
    """Maps of `interval_ms` each; those wholly older than `retention_ms` before a time are dropped."""

    def __init__(self, name: str, retention_ms: int, interval_ms: int, backend: Backend) -> None:
        self._name = name
        self._retention_ms = min(retention_ms, MAX_LONG)
        self._interval_ms = interval_ms
        self._backend = backend
        self._maps: dict[int, OrderedBytes] = {}
        #: The segment that was asked for last, and its number.
        self._last: OrderedBytes | None = None
        self._last_number = 0
        self._oldest = 0
        for found in backend.names(f"{name}."):
            start = found.removeprefix(f"{name}.")
            if start.isdecimal():  # another store's name may begin with this one's
                self._maps[int(start) // interval_ms] = backend.open(found)

    def id_of(self, timestamp: int) -> int:
        """Return the number of the segment of a time in milliseconds; Java's division goes towards zero."""
        return timestamp // self._interval_ms if timestamp >= 0 else -(-timestamp // self._interval_ms)

    def at(self, timestamp: int) -> OrderedBytes | None:
        """Return the segment of a time, None when there is none."""
        return self._of(self.id_of(timestamp))

    def _of(self, number: int) -> OrderedBytes | None:
        if self._last is None or number != self._last_number:
            self._last = self._maps.get(number)
            self._last_number = number
        return self._last

    def live(self, number: int, stream_time: int) -> OrderedBytes | None:
        """Return a segment, a new one if need be; None when it is too old at `stream_time`."""
        if number < self.id_of(stream_time - self._retention_ms):
            return None
        found = self._of(number)
        if found is None:
            found = self._last = self._maps[number] = self._backend.open(self._file(number))
        self.drop_expired(stream_time)
        return found

    def drop_expired(self, stream_time: int) -> None:
        """Drop the segments that are too old at `stream_time`."""
        oldest = self.id_of(stream_time - self._retention_ms)
        if oldest <= self._oldest:
            return
        self._oldest = oldest
        self._last = None
        for number in [number for number in self._maps if number < oldest]:
            del self._maps[number]
            self._backend.drop(self._file(number))

    def between(self, first: int, last: int, reverse: bool = False) -> list[tuple[int, OrderedBytes]]:
        """Return the segments from one time to another, in order of time."""
        begin, end = self.id_of(first), self.id_of(last)
        found = []
        if begin == end:
            only = self._of(begin)
            return [] if only is None else [(begin, only)]
        for number, segment in self._maps.items():
            if begin <= number <= end:
                found.append((number, segment))
        if len(found) > 1:
            found.sort(key=_NUMBER, reverse=reverse)
        return found

    def all(self, reverse: bool = False) -> list[tuple[int, OrderedBytes]]:
        """Return all segments in order of time."""
        return sorted(self._maps.items(), key=_NUMBER, reverse=reverse)

    def _file(self, number: int) -> str:
        return f"{self._name}.{number * self._interval_ms}"


def scan(
    segments: list[tuple[int, OrderedBytes]],
    first: bytes | None,
    last: bytes | None,
    reverse: bool,
    accept: Accept,
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of segments, one segment after the other, that `accept` accepts."""
    for _, segment in segments:
        for key, value in segment.range(first, last, reverse):
            if accept(key):
                yield key, value
