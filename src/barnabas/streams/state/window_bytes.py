# cython: language_level=3, annotation_typing=False
"""How the bytes of window stores are kept: by key, or by time first, in segments.

Source: Kafka's AbstractRocksDBSegmentedBytesStore, WindowKeySchema and PrefixedWindowKeySchemas.
C types are in `window_bytes.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Iterator
from struct import Struct

from barnabas.streams.serdes.window_keys import MAX_INT, MAX_LONG, split_window_key
from barnabas.streams.state.memory import Backend
from barnabas.streams.state.segments import scan

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import has_prefix, long_at
    from barnabas.streams.serdes.window_keys import window_key
    from barnabas.streams.state.memory import OrderedBytes
    from barnabas.streams.state.segments import Segments

#: Key, start of the window in milliseconds, value.
Entry = tuple[bytes, int, bytes]

_SUFFIX = Struct(">qi")
_LONG = Struct(">q")
_INT = Struct(">i")


@cython.cclass
class WindowSegments:
    """Windows in segments, sorted by key, then start: Kafka's RocksDBWindowStore."""

    def __init__(self, name: str, retention_ms: int, segment_interval_ms: int, backend: Backend) -> None:
        self._segments = Segments(name, retention_ms, segment_interval_ms, backend)
        self._retention_ms = min(retention_ms, MAX_LONG)
        #: Kafka lets go of a window one millisecond later when windows are sorted by time.
        self._grace_ms = 1
        self.observed_stream_time = -1

    def put(self, key: bytes, start: int, sequence: int, value: bytes | None, data: bytes | None = None) -> bool:
        """Keep a value, or delete it with None; return False when the window is too old.

        `data` is the window's key in the changelog, if the caller has made it.
        """
        if start > self.observed_stream_time:
            self.observed_stream_time = start
        segments = self._segments
        segment = segments.live(segments.id_of(start), self.observed_stream_time)
        if segment is None:
            return False
        if data is None:
            data = window_key(key, start, sequence)
        if value is None:
            segment.delete(data)
        else:
            segment.put(data, value)
        return True

    def load(self, data: bytes, value: bytes | None) -> None:
        """Take a record of the changelog, as one of very many: what `put` does, by the window's key there."""
        segment = self._loaded_by(data)
        if segment is not None:
            segment.load(data, value)

    def _loaded_by(self, data: bytes) -> OrderedBytes | None:
        """Return the segment of a window's key, None when it is too old."""
        start = long_at(data, len(data) - 12)
        if start > self.observed_stream_time:
            self.observed_stream_time = start
        return self._segments.live(self._segments.id_of(start), self.observed_stream_time)

    def get(self, key: bytes, start: int, sequence: int) -> bytes | None:
        """Return the value of a window, None for none."""
        if start < self._from(start - 1):
            return None
        segment = self._segments.at(start)
        return None if segment is None else segment.get(window_key(key, start, sequence))

    def of_key(self, key: bytes, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the windows of a key in order, all at once: their keys in the changelog, and their values."""
        first = self._from(first)
        found: list[tuple[bytes, bytes]] = []
        if last < first:
            return found
        lower, upper = window_key(key, max(0, first), 0), window_key(key, last, MAX_INT)
        size = len(lower)
        for _, segment in self._segments.between(first, last):
            entries = segment.entries(lower, upper)
            for entry in entries:
                data = entry[0]
                if len(data) == size and has_prefix(data, key):
                    found.append(entry)
        return found

    def fetch(self, key: bytes, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Yield the windows of a key that start from `first` to `last`."""
        first = self._from(first)
        if last < first:
            return iter(())
        lower, upper = window_key(key, max(0, first), 0), window_key(key, last, MAX_INT)
        segments = self._segments.between(first, last, reverse)
        return self._split(scan(segments, lower, upper, reverse, lambda data: data[:-12] == key))

    def fetch_keys(
        self, first_key: bytes | None, last_key: bytes | None, first: int, last: int, reverse: bool
    ) -> Iterator[Entry]:
        """Yield the windows of keys from `first_key` to `last_key`, None for no bound."""
        first = self._from(first)
        if last < first or _empty(first_key, last_key):
            return iter(())
        upper = None if last_key is None else upper_range(last_key, _SUFFIX.pack(last, MAX_INT))
        segments = self._segments.between(first, last, reverse)

        def accept(data: bytes) -> bool:
            key, start, _ = split_window_key(data)
            return (
                first <= start <= last
                and (first_key is None or key >= first_key)
                and (last_key is None or key <= last_key)
            )

        return self._split(scan(segments, first_key, upper, reverse, accept))

    def fetch_all(self, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Yield the windows of all keys that start from `first` to `last`."""
        return self.fetch_keys(None, None, first, last, reverse)

    def all(self, reverse: bool) -> Iterator[Entry]:
        """Yield all windows that are kept."""
        return self.fetch_keys(None, None, 0, MAX_LONG, reverse)

    def num_entries(self) -> int:
        """Return how many entries there are, those among them that are too old to be seen."""
        return sum(len(segment) for _, segment in self._segments.all())

    def _from(self, first: int) -> int:
        oldest = self.observed_stream_time - self._retention_ms + self._grace_ms
        return first if first > oldest else oldest

    @staticmethod
    def _split(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[Entry]:
        for data, value in entries:
            key, start, _ = split_window_key(data)
            yield key, start, value


@cython.cclass
class TimeOrderedWindowSegments(WindowSegments):
    """Windows in segments, sorted by start, then key: what emits on window close needs.

    `indexed` keeps a second order, by key, for sliding windows, which ask for the windows of one key.
    """

    def __init__(
        self, name: str, retention_ms: int, segment_interval_ms: int, backend: Backend, *, indexed: bool
    ) -> None:
        super().__init__(name, retention_ms, segment_interval_ms, backend)
        self._grace_ms = 0
        self.indexed = indexed

    def put(self, key: bytes, start: int, sequence: int, value: bytes | None, data: bytes | None = None) -> bool:
        """Keep a value, or delete it with None; return False when the window is too old."""
        if start > self.observed_stream_time:
            self.observed_stream_time = start
        segment = self._segments.live(self._segments.id_of(start), self.observed_stream_time)
        if segment is None:
            return False
        base = _by_time(key, start, sequence)
        if value is None:
            segment.delete(base)
            segment.delete(b"\x01" + window_key(key, start, sequence))
            return True
        segment.put(base, value)
        if self.indexed:
            segment.put(b"\x01" + window_key(key, start, sequence), b"")
        return True

    def load(self, data: bytes, value: bytes | None) -> None:
        """Take a record of the changelog, as one of very many: what `put` does, by the window's key there."""
        segment = self._loaded_by(data)
        if segment is None:
            return
        segment.load(b"".join((b"\x00", data[-12:-4], data[:-12], data[-4:])), value)
        if value is None or self.indexed:
            segment.load(b"\x01" + data, None if value is None else b"")

    def get(self, key: bytes, start: int, sequence: int) -> bytes | None:
        """Return the value of a window, None for none."""
        if start < self.observed_stream_time - self._retention_ms:
            return None
        segment = self._segments.at(start)
        return None if segment is None else segment.get(_by_time(key, start, sequence))

    def of_key(self, key: bytes, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the windows of a key in order, all at once: their keys in the changelog, and their values."""
        return [(window_key(key, start, 0), value) for _, start, value in self.fetch(key, first, last, False)]

    def fetch(self, key: bytes, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Yield the windows of a key that start from `first` to `last`."""
        return self.fetch_keys(key, key, first, last, reverse)

    def fetch_keys(
        self, first_key: bytes | None, last_key: bytes | None, first: int, last: int, reverse: bool
    ) -> Iterator[Entry]:
        """Yield the windows of keys from `first_key` to `last_key`: by key with an index, else by time."""
        first = self._from(first)
        if last < first or _empty(first_key, last_key):
            return iter(())
        return (
            self._by_index(first_key, last_key, first, last, reverse)
            if self.indexed
            else self._by_base(first_key, last_key, first, last, reverse)
        )

    def _by_base(
        self, first_key: bytes | None, last_key: bytes | None, first: int, last: int, reverse: bool
    ) -> Iterator[Entry]:
        lower = b"\x00" + _LONG.pack(max(0, first))
        upper = b"\x00" + _LONG.pack(last) + b"\xff" if last < MAX_LONG else b"\x01"
        for _, segment in self._segments.between(first, last, reverse):
            for data, value in segment.range(lower, upper, reverse):
                key, start = data[9:-4], _LONG.unpack_from(data, 1)[0]
                if first <= start <= last and _within(key, first_key, last_key):
                    yield key, start, value

    def _by_index(
        self, first_key: bytes | None, last_key: bytes | None, first: int, last: int, reverse: bool
    ) -> Iterator[Entry]:
        lower = b"\x01" + (first_key or b"")
        upper = b"\x02" if last_key is None else b"\x01" + upper_range(last_key, _SUFFIX.pack(last, MAX_INT))
        for _, segment in self._segments.between(first, last, reverse):
            for data, _ in segment.range(lower, upper, reverse):
                key, start, sequence = split_window_key(data[1:])
                if first <= start <= last and _within(key, first_key, last_key):
                    value = segment.get(_by_time(key, start, sequence))
                    if value is not None:
                        yield key, start, value

    def fetch_all(self, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Yield the windows of all keys that start from `first` to `last`, by time."""
        first = self._from(first)
        return iter(()) if last < first else self._by_base(None, None, first, last, reverse)

    def all(self, reverse: bool) -> Iterator[Entry]:
        """Yield all windows that are kept, by time."""
        return self.fetch_all(0, MAX_LONG, reverse)


def _by_time(key: bytes, start: int, sequence: int) -> bytes:
    return b"".join((b"\x00", _LONG.pack(start), key, _INT.pack(sequence)))


def _empty(first: bytes | None, last: bytes | None) -> bool:
    return first is not None and last is not None and first > last


def _within(key: bytes, first: bytes | None, last: bytes | None) -> bool:
    return (first is None or key >= first) and (last is None or key <= last)


def upper_range(key: bytes, suffix: bytes) -> bytes:
    """Return bytes that no stored key exceeds whose own key is at most `key`; Kafka's OrderedBytes.upperRange."""
    end = 0
    while end < len(key) and (end < 1 or key[end] >= suffix[0]):
        end += 1
    return key[:end] + suffix
