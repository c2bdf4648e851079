# cython: language_level=3, annotation_typing=False
"""Stores from key and start of a window to value, with the values' timestamps or without.

C types are in `window.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.streams.serdes.change import Change
from barnabas.streams.serdes.window_keys import MAX_LONG, split_window_key
from barnabas.streams.serdes.windowed import time_window
from barnabas.streams.state.in_memory_window import InMemoryWindows
from barnabas.streams.state.segmented_caching import Lookup, WindowCache, window_cache
from barnabas.streams.state.store import StoreIterator
from barnabas.streams.state.window_bytes import Entry
from barnabas.streams.windowed import Windowed

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import int_at, long_at
    from barnabas.streams.serdes.window_keys import window_key
    from barnabas.streams.state.changelog_record import changelog_record
    from barnabas.streams.state.store import SerdeStore
    from barnabas.streams.state.value_format import HeadersFormat, TimestampedFormat, ValueFormat
    from barnabas.streams.state.window_bytes import WindowSegments
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.serdes.record_context import RecordContext
    from barnabas.streams.state.changelog_record import ChangelogRecord
    from barnabas.streams.state.record_cache import RecordCache


class WindowBytes(Protocol):
    """How the windows of a store are kept."""

    observed_stream_time: int

    def put(self, key: bytes, start: int, sequence: int, value: bytes | None) -> bool:
        """Keep a value, or delete it with None; return False when the window is too old."""

    def get(self, key: bytes, start: int, sequence: int) -> bytes | None:
        """Return the value of a window, None for none."""

    def fetch(self, key: bytes, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Yield the windows of a key that start from `first` to `last`."""

    def fetch_keys(
        self, first_key: bytes | None, last_key: bytes | None, first: int, last: int, reverse: bool
    ) -> Iterator[Entry]:
        """Yield the windows of keys from `first_key` to `last_key`, None for no bound."""

    def fetch_all(self, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Yield the windows of all keys that start from `first` to `last`."""

    def all(self, reverse: bool) -> Iterator[Entry]:
        """Yield all windows that are kept."""

    def num_entries(self) -> int:
        """Return how many entries there are."""


@cython.cclass
class WindowStore(SerdeStore):
    """Keeps a value for each key and window, or with `retain_duplicates` as many as are put."""

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        windows: WindowBytes,
        window_size_ms: int,
        *,
        retain_duplicates: bool = False,
        logged: bool = True,
        persistent: bool = False,
    ) -> None:
        super().__init__(name, key_serde, value_serde, logged=logged)
        self._windows = windows
        #: The windows once more, if they are ours: those are called without the interpreter.
        self._segments = windows if isinstance(windows, WindowSegments) else None
        self.window_size_ms = window_size_ms
        self._retain_duplicates = retain_duplicates
        self.persistent = persistent
        self._sequence = 0
        self._format = ValueFormat()
        self._cache: WindowCache | None = None

    def enable_cache(self, shared: RecordCache, segment_interval_ms: int) -> None:
        """Hold updates back until a commit, or until the shared cache is full."""
        if not self._retain_duplicates:
            self._cache = window_cache(self, shared, segment_interval_ms, self._windows)

    def set_flush_listener(self, listener: Callable[[Any], None], send_old_values: bool) -> bool:
        """Let `listener` take records with a `Change` when the cache lets them go; False when there is no cache."""
        if self._cache is None:
            return False
        split = self._cache.split

        def flushed(key: bytes, new: bytes | None, old: bytes | None, context: RecordContext) -> None:
            data, start = split(key)
            windowed = Windowed(self._read_key(data), time_window(start, self.window_size_ms))
            now, before = self._format.read(self, new), self._format.read(self, old)
            change = Change(self._format.plain(now), self._format.plain(before))
            listener(make_record(windowed, change, self._format.time(now, context.timestamp), context.headers))

        self._cache.set_flush_listener(flushed, send_old_values)
        return True

    def flush(self) -> None:
        """Write what the cache holds back."""
        if self._cache is not None:
            self._cache.flush()

    def get_behind(self, key: bytes, start: int) -> bytes | None:
        """Return what is kept of a window behind the cache."""
        if self._segments is not None:
            return self._segments.get(key, start, self._sequence)
        return self._windows.get(key, start, self._sequence)

    def times(self) -> dict[str, int]:
        """Return the greatest start of a window that was put, and the last sequence number."""
        return {"observed": self._windows.observed_stream_time, "sequence": self._sequence}

    def restore_times(self, times: dict[str, int]) -> None:
        """Take what `times` returned."""
        self._windows.observed_stream_time = max(times["observed"], self._windows.observed_stream_time)
        self._sequence = times["sequence"]

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Keep a value for the window that starts at `window_start`; None deletes."""
        self._put(self._key(key), self._format.write(self, value), window_start)

    def fetch(self, *args: Any) -> Any:
        """Return what is kept, by the number of arguments, as Kafka's overloads do.

        `fetch(key, time)` returns the value of a window. `fetch(key, time_from, time_to)` returns an iterator of
        (start, value), `fetch(key_from, key_to, time_from, time_to)` one of (windowed key, value), None for no bound.
        """
        if len(args) == 2:
            return self.get(args[0], args[1])
        return self._fetch(args, reverse=False)

    def get(self, key: Any, start: int) -> Any:
        """Return the value of the window that starts there: `fetch`, for callers in C."""
        data = self._key(key)
        found = self.get_behind(data, start) if self._cache is None else self._cache.get(data, start)
        return self._format.read(self, found)

    def of_key(self, key: Any, first: int, last: int, reverse: bool = False) -> list[tuple[int, Any]]:
        """Return start and value of the windows of a key, those that start between two times, all at once."""
        if not self._is_plain():
            return list(self._fetch((key, first, last), reverse))
        return [self._read_window(entry) for entry in self._entries_of_key(key, first, last, reverse)]

    def _is_plain(self) -> bool:
        """Tell whether windows are kept in segments of ours, and nothing is held back."""
        return self._cache is None and self._segments is not None

    def _entries_of_key(self, key: Any, first: int, last: int, reverse: bool) -> list[tuple[bytes, bytes]]:
        """Return what `of_key` does of a plain store, each to be read with `_read_window` if it is needed."""
        found = self._segments.of_key(self._key(key), first, last)  # type: ignore[union-attr]  # it is plain
        if reverse:
            found.reverse()
        return found

    def _read_window(self, entry: tuple[bytes, bytes]) -> tuple[int, Any]:
        """Return start and value of one of `_entries_of_key`."""
        data, value = entry
        return long_at(data, len(data) - 12), self._format.read(self, value)

    def backward_fetch(self, *args: Any) -> StoreIterator[Any, Any]:
        """Return the iterators of `fetch` in the opposite order."""
        return self._fetch(args, reverse=True)

    def fetch_all(self, time_from: int, time_to: int) -> StoreIterator[Windowed[Any], Any]:
        """Return the windows of all keys that start between two times, both included."""
        return self._fetch_all(time_from, time_to, False)

    def backward_fetch_all(self, time_from: int, time_to: int) -> StoreIterator[Windowed[Any], Any]:
        """Return the windows of `fetch_all` in the opposite order."""
        return self._fetch_all(time_from, time_to, True)

    def all(self) -> StoreIterator[Windowed[Any], Any]:
        """Return all windows that are kept."""
        return self._all(False)

    def backward_all(self) -> StoreIterator[Windowed[Any], Any]:
        """Return all windows in the opposite order."""
        return self._all(True)

    def approximate_num_entries(self) -> int:
        """Return how many windows there are."""
        return self._windows.num_entries()

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog."""
        segments = self._segments
        for record in records:
            data = record.key
            if segments is None or len(data) < 12:
                key, start, sequence = split_window_key(data)
                self._windows.put(key, start, sequence, self._format.restored(record))
            else:
                sequence = int_at(data, len(data) - 4)
                segments.load(data, self._format.restored(record))
            if sequence > self._sequence:
                self._sequence = sequence

    def _fetch(self, args: tuple[Any, ...], reverse: bool) -> StoreIterator[Any, Any]:
        if len(args) == 3:
            key, first, last = args
            data = self._key(key)
            entries = self._windows.fetch(data, first, last, reverse)
            if self._cache is not None:
                entries = self._cache.windows(entries, Lookup(data, data, first, last, reverse, of_one=True))
            return StoreIterator((start, self._format.read(self, value)) for _, start, value in entries)
        first_key, last_key, first, last = args
        begin, end = self._bound(first_key), self._bound(last_key)
        entries = self._windows.fetch_keys(begin, end, first, last, reverse)
        if self._cache is not None and not (begin is not None and end is not None and begin > end):
            entries = self._cache.windows(entries, Lookup(begin, end, first, last, reverse))
        return self._keyed(entries)

    def _fetch_all(self, first: int, last: int, reverse: bool) -> StoreIterator[Windowed[Any], Any]:
        entries = self._windows.fetch_all(first, last, reverse)
        if self._cache is not None:
            entries = self._cache.windows(entries, Lookup(None, None, first, last, reverse, of_all=True))
        return self._keyed(entries)

    def _all(self, reverse: bool) -> StoreIterator[Windowed[Any], Any]:
        entries = self._windows.all(reverse)
        if self._cache is not None:
            entries = self._cache.windows(entries, Lookup(None, None, 0, MAX_LONG, reverse, of_all=True))
        return self._keyed(entries)

    def _keyed(self, entries: Iterator[Entry]) -> StoreIterator[Windowed[Any], Any]:
        size = self.window_size_ms
        return StoreIterator(
            (Windowed(self._read_key(key), time_window(start, size)), self._format.read(self, value))
            for key, start, value in entries
        )

    def _put(self, key: bytes, value: bytes | None, start: int) -> None:
        if self._cache is not None:
            self._cache.put(key, start, value)
        else:
            self.put_behind(key, value, start)

    def put_behind(self, key: bytes, value: bytes | None, start: int) -> None:
        """Write to the segments and the changelog, past the cache."""
        if self._retain_duplicates:
            if value is None:
                # Kafka's stores on disk pass it over, those in memory take its time.
                if isinstance(self._windows, InMemoryWindows) and not self._windows.put(key, start, 0, None):
                    self.context.record_dropped()
                self._log_duplicate(key, start)
                return
            self._sequence = (self._sequence + 1) & 0x7FFFFFFF
        data = self._keep(key, value, start)
        if self.logged:
            self._changes.append(self._format.logged(self, data, value))

    def _keep(self, key: bytes, value: bytes | None, start: int) -> bytes:
        """Write to the segments; return the window's key."""
        data = window_key(key, start, self._sequence)
        if self._segments is not None:
            put = self._segments.put(key, start, self._sequence, value, data)
        else:
            put = self._windows.put(key, start, self._sequence, value)
        if not put:
            self.context.record_dropped()
        return data

    def _log_duplicate(self, key: bytes, start: int) -> None:
        if self.logged:
            self._sequence = (self._sequence + 1) & 0x7FFFFFFF
            self._changes.append(self._format.logged(self, window_key(key, start, self._sequence), None))


@cython.cclass
class JoinWindowStore(WindowStore):
    """What one side of a join of streams keeps: plain values; the changelog has the record's headers too."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._format = ValueFormat(logs_headers=True)


@cython.cclass
class TimestampedWindowStore(WindowStore):
    """Keeps values with their timestamps, as `ValueAndTimestamp`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        with_headers = settings.pop("with_headers", False)
        super().__init__(*arguments, **settings)
        self._format: TimestampedFormat = HeadersFormat() if with_headers else TimestampedFormat()

    def put_with_timestamp(self, key: Any, value: Any, timestamp: int, window_start: int) -> None:
        """Keep a value with its timestamp; None deletes."""
        written = self._format
        data, value_data = self._key(key), self._value(value)
        if value_data is None or self._cache is not None or self._retain_duplicates:
            self._put(data, written.stamped(value_data, timestamp), window_start)
            return
        data = self._keep(data, written.stamped(value_data, timestamp), window_start)
        if self.logged:
            headers = self._header_list() if written.logs_headers else None
            self._changes.append(changelog_record(data, value_data, timestamp, headers))
