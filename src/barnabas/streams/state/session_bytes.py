# cython: language_level=3, annotation_typing=False
"""How the bytes of session stores are kept: by key, or by time first, in segments, or in memory.

C types are in `session_bytes.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Iterator
from struct import Struct

from barnabas.streams.serdes.window_keys import MAX_LONG, split_session_key
from barnabas.streams.state.memory import Backend
from barnabas.streams.state.segments import scan
from barnabas.streams.state.window_bytes import upper_range

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import has_prefix, long_at
    from barnabas.streams.serdes.window_keys import session_key
    from barnabas.streams.state.memory import OrderedBytes
    from barnabas.streams.state.segments import Segments

#: Key, start and end of the session in milliseconds, value.
Session = tuple[bytes, int, int, bytes]

_TWO_LONGS = Struct(">qq")


@cython.cclass
class SessionSegments:
    """Sessions in segments by their end, sorted by key, end, start: Kafka's RocksDBSessionStore."""

    def __init__(self, name: str, retention_ms: int, segment_interval_ms: int, backend: Backend) -> None:
        self._segments = Segments(name, retention_ms, segment_interval_ms, backend)
        self._retention_ms = min(retention_ms, MAX_LONG)
        self.observed_stream_time = -1

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> bool:
        """Keep a value, or delete it with None; return False when the session is too old."""
        self.observed_stream_time = max(self.observed_stream_time, end)
        segment = self._segments.live(self._segments.id_of(end), self.observed_stream_time)
        if segment is None:
            return False
        if value is None:
            segment.delete(session_key(key, start, end))
        else:
            segment.put(session_key(key, start, end), value)
        return True

    def load(self, data: bytes, value: bytes | None) -> None:
        """Take a record of the changelog, as one of very many: what `put` does, by the session's key there."""
        segment = self._loaded_by(data)
        if segment is not None:
            segment.load(data, value)

    def _loaded_by(self, data: bytes) -> OrderedBytes | None:
        """Return the segment of a session's key, None when it is too old."""
        end = long_at(data, len(data) - 16)
        if end > self.observed_stream_time:
            self.observed_stream_time = end
        return self._segments.live(self._segments.id_of(end), self.observed_stream_time)

    def remove(self, key: bytes, start: int, end: int) -> None:
        """Forget a session."""
        self.observed_stream_time = max(self.observed_stream_time, end)
        segment = self._segments.at(end)
        if segment is not None:
            segment.delete(session_key(key, start, end))

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return the value of a session, None for none."""
        if end < self.observed_stream_time - self._retention_ms + 1:
            return None
        segment = self._segments.at(end)
        return None if segment is None else segment.get(session_key(key, start, end))

    def of_key(self, key: bytes, earliest_end: int, latest_start: int) -> list[Session]:
        """Return the sessions of one key that touch a span of time, all at once."""
        first = max(earliest_end, self.observed_stream_time - self._retention_ms + 1)
        lower, upper = session_key(key, 0, max(0, first)), session_key(key, latest_start, MAX_LONG)
        found = []
        size = len(lower)
        for _, segment in self._segments.between(first, MAX_LONG):
            for data, value in segment.entries(lower, upper):
                if len(data) == size and has_prefix(data, key):
                    end, start = long_at(data, size - 16), long_at(data, size - 8)
                    if end >= first and start <= latest_start:
                        found.append((key, start, end, value))
        return found

    def find(
        self, first_key: bytes | None, last_key: bytes | None, earliest_end: int, latest_start: int, reverse: bool
    ) -> Iterator[Session]:
        """Yield the sessions of keys, None for no bound, that end and start so that they touch a span of time."""
        if first_key is not None and last_key is not None and first_key > last_key:
            return iter(())
        first = max(earliest_end, self.observed_stream_time - self._retention_ms + 1)
        if first_key is not None and first_key == last_key:
            lower: bytes | None = session_key(first_key, 0, max(0, first))
            upper: bytes | None = session_key(first_key, latest_start, MAX_LONG)
        else:
            lower = first_key
            upper = None if last_key is None else upper_range(last_key, _TWO_LONGS.pack(MAX_LONG, latest_start))

        def accept(data: bytes) -> bool:
            key, start, end = split_session_key(data)
            return (
                end >= first
                and start <= latest_start
                and (first_key is None or key >= first_key)
                and (last_key is None or key <= last_key)
            )

        segments = self._segments.between(first, MAX_LONG, reverse)
        return _split(scan(segments, lower, upper, reverse, accept))

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[Session]:
        """Yield the sessions that ended between two times. Raises NotImplementedError: they are sorted by key here."""
        raise NotImplementedError("This API is not supported by this implementation of session store.")


@cython.cclass
class TimeOrderedSessionSegments(SessionSegments):
    """Sessions in segments, sorted by end, start, key beside the order by key: what emits on window close needs."""

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> bool:
        """Keep a value, or delete it with None; return False when the session is too old."""
        self.observed_stream_time = max(self.observed_stream_time, end)
        segment = self._segments.live(self._segments.id_of(end), self.observed_stream_time)
        if segment is None:
            return False
        by_time, by_key = _by_time(key, start, end), b"\x01" + session_key(key, start, end)
        if value is None:
            segment.delete(by_time)
            segment.delete(by_key)
        else:
            segment.put(by_time, value)
            segment.put(by_key, b"")
        return True

    def load(self, data: bytes, value: bytes | None) -> None:
        """Take a record of the changelog, as one of very many: what `put` does, by the session's key there."""
        segment = self._loaded_by(data)
        if segment is not None:
            segment.load(b"".join((b"\x00", data[-16:], data[:-16])), value)
            segment.load(b"\x01" + data, None if value is None else b"")

    def remove(self, key: bytes, start: int, end: int) -> None:
        """Forget a session."""
        self.observed_stream_time = max(self.observed_stream_time, end)
        segment = self._segments.at(end)
        if segment is not None:
            segment.delete(_by_time(key, start, end))
            segment.delete(b"\x01" + session_key(key, start, end))

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return the value of a session, None for none."""
        if end < self.observed_stream_time - self._retention_ms + 1:
            return None
        segment = self._segments.at(end)
        return None if segment is None else segment.get(_by_time(key, start, end))

    def of_key(self, key: bytes, earliest_end: int, latest_start: int) -> list[Session]:
        """Return the sessions of one key that touch a span of time, all at once."""
        return list(self.find(key, key, earliest_end, latest_start, False))

    def find(
        self, first_key: bytes | None, last_key: bytes | None, earliest_end: int, latest_start: int, reverse: bool
    ) -> Iterator[Session]:
        """Yield the sessions of keys, None for no bound, that touch a span of time, by key."""
        if first_key is not None and last_key is not None and first_key > last_key:
            return
        first = max(earliest_end, self.observed_stream_time - self._retention_ms + 1)
        lower = b"\x01" + (first_key or b"")
        upper = (
            b"\x02" if last_key is None else b"\x01" + upper_range(last_key, _TWO_LONGS.pack(MAX_LONG, latest_start))
        )
        for _, segment in self._segments.between(first, MAX_LONG, reverse):
            for data, _ in segment.range(lower, upper, reverse):
                key, start, end = split_session_key(data[1:])
                if end < first or start > latest_start:
                    continue
                if (first_key is None or key >= first_key) and (last_key is None or key <= last_key):
                    value = segment.get(_by_time(key, start, end))
                    if value is not None:
                        yield key, start, end, value

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[Session]:
        """Yield the sessions that ended between two times, both included, by time."""
        lower = b"\x00" + _TWO_LONGS.pack(max(0, earliest_end), 0)
        for _, segment in self._segments.between(earliest_end, latest_end):
            for data, value in segment.range(lower, b"\x01"):
                end, start = _TWO_LONGS.unpack_from(data, 1)
                if end > latest_end:
                    break
                yield data[17:], start, end, value


def _split(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[Session]:
    for data, value in entries:
        key, start, end = split_session_key(data)
        yield key, start, end, value


def _by_time(key: bytes, start: int, end: int) -> bytes:
    return b"\x00" + _TWO_LONGS.pack(end, start) + key
