# cython: language_level=3, annotation_typing=False
"""Stores from key and session to value.

C types are in `session.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from barnabas.streams.serdes.change import Change
from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.serdes.window_keys import MAX_LONG, split_session_key
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.record_cache import RecordCache
from barnabas.streams.state.segmented_caching import Lookup, SessionCache
from barnabas.streams.state.session_bytes import Session
from barnabas.streams.state.store import StoreIterator
from barnabas.streams.topology.record import Record
from barnabas.streams.windowed import SessionWindow, Windowed

if not cython.compiled:
    from barnabas.streams.serdes.window_keys import session_key
    from barnabas.streams.state.session_bytes import SessionSegments
    from barnabas.streams.state.store import SerdeStore
    from barnabas.streams.state.value_format import SessionHeadersFormat, ValueFormat
    from barnabas.streams.windowed import make_session_window, make_windowed


class SessionBytes(Protocol):
    """How the sessions of a store are kept."""

    observed_stream_time: int

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> bool:
        """Keep a value, or delete it with None; return False when the session is too old."""

    def remove(self, key: bytes, start: int, end: int) -> None:
        """Forget a session."""

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return the value of a session, None for none."""

    def find(
        self, first_key: bytes | None, last_key: bytes | None, earliest_end: int, latest_start: int, reverse: bool
    ) -> Iterator[Session]:
        """Yield the sessions of keys, None for no bound, that touch a span of time."""

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[Session]:
        """Yield the sessions that ended between two times, both included."""


@cython.cclass
class SessionStore(SerdeStore):
    """Keeps a value for each key and session; with `with_headers`, as `AggregationWithHeaders`."""

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        sessions: SessionBytes,
        *,
        logged: bool = True,
        persistent: bool = False,
        with_headers: bool = False,
    ) -> None:
        super().__init__(name, key_serde, value_serde, logged=logged)
        self._sessions = sessions
        self._of_key: Any = getattr(sessions, "of_key", None)
        #: The sessions once more, if they are ours: those are called without the interpreter.
        self._segments = sessions if isinstance(sessions, SessionSegments) else None
        self.persistent = persistent
        self._cache: SessionCache | None = None
        self.with_headers = with_headers
        self._format = SessionHeadersFormat() if with_headers else ValueFormat()

    def enable_cache(self, shared: RecordCache, segment_interval_ms: int) -> None:
        """Hold updates back until a commit, or until the shared cache is full."""
        self._cache = SessionCache(self, shared, segment_interval_ms)

    def set_flush_listener(self, listener: Callable[[Any], None], send_old_values: bool) -> bool:
        """Let `listener` take records with a `Change` when the cache lets them go; False when there is no cache."""
        if self._cache is None:
            return False

        def flushed(key: bytes, new: bytes | None, old: bytes | None, context: RecordContext) -> None:
            data, start, end = split_session_key(key[8:])
            now, before = self._format.read(self, new), self._format.read(self, old)
            session = Windowed(self._read_key(data), SessionWindow(start, end))
            change = Change(self._format.plain(now), self._format.plain(before))
            listener(Record(session, change, end, self._format.headers(now, context.headers)))

        self._cache.set_flush_listener(flushed, send_old_values)
        return True

    def flush(self) -> None:
        """Write what the cache holds back."""
        if self._cache is not None:
            self._cache.flush()

    def get_behind(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return what is kept of a session behind the cache."""
        return self._sessions.get(key, start, end)

    def put_behind(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        """Write to the segments and the changelog, past the cache."""
        if self._segments is not None:
            put = self._segments.put(key, start, end, value)
        else:
            put = self._sessions.put(key, start, end, value)
        if not put:
            self.context.record_dropped()
        self._log(session_key(key, start, end), value)

    def times(self) -> dict[str, int]:
        """Return the greatest end of a session that was put."""
        return {"observed": self._sessions.observed_stream_time}

    def restore_times(self, times: dict[str, int]) -> None:
        """Take what `times` returned."""
        self._sessions.observed_stream_time = max(times["observed"], self._sessions.observed_stream_time)

    def put(self, session: Windowed[Any], value: Any) -> None:
        """Keep the value of a session; None deletes."""
        window = session.window
        key, data = self._key(session.key), self._format.write(self, value)
        if self._cache is not None:
            self._cache.put(key, window.start, window.end, data)
        else:
            self.put_behind(key, window.start, window.end, data)

    def remove(self, session: Windowed[Any]) -> None:
        """Forget a session."""
        window = session.window
        key = self._key(session.key)
        if self._cache is not None:
            self._cache.put(key, window.start, window.end, None)
            return
        if self._segments is not None:
            self._segments.remove(key, window.start, window.end)
        else:
            self._sessions.remove(key, window.start, window.end)
        self._log(session_key(key, window.start, window.end), None)

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """Return the value of one session, None for none."""
        data = self._key(key)
        find = self.get_behind if self._cache is None else self._cache.get
        return self._format.read(self, find(data, start, end))

    def plain(self, value: Any) -> Any:
        """Return the aggregation alone of what the store gave, without headers."""
        return self._format.plain(value)

    def near(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed[Any], Any]]:
        """Return the sessions of a key that touch a span of time, with their aggregations alone, for callers in C."""
        if self._cache is not None or self._of_key is None:
            entries = self._find((key, earliest_end, latest_start), False)
            return [(session, self._format.plain(value)) for session, value in entries]
        written = self._key(key)
        if self._segments is not None:
            kept = self._segments.of_key(written, earliest_end, latest_start)
        else:
            kept = self._of_key(written, earliest_end, latest_start)
        found = []
        for data, start, end, value in kept:
            aggregation = self._format.plain(self._format.read(self, value))
            found.append((make_windowed(self._read_key(data), make_session_window(start, end)), aggregation))
        return found

    def find_sessions(self, *args: Any) -> StoreIterator[Windowed[Any], Any]:
        """Return sessions, by the number of arguments, as Kafka's overloads do.

        `find_sessions(key, earliest_end, latest_start)` and `find_sessions(key_from, key_to, earliest_end,
        latest_start)` return those that touch a span of time; `find_sessions(earliest_end, latest_end)` those of all
        keys that ended in it, and raises NotImplementedError unless the store emits on window close or is in memory.
        """
        if len(args) == 2:
            if self._cache is not None:
                raise NotImplementedError("This API is not supported by this implementation of session store.")
            return self._iterate(self._sessions.find_ended(args[0], args[1]))
        return self._find(args, reverse=False)

    def backward_find_sessions(self, *args: Any) -> StoreIterator[Windowed[Any], Any]:
        """Return the sessions of `find_sessions` for keys in the opposite order."""
        return self._find(args, reverse=True)

    def fetch(self, key: Any, key_to: Any = ...) -> StoreIterator[Windowed[Any], Any]:
        """Return all sessions of a key, or of keys from one to another, None for no bound."""
        first = self._bound(key)
        last = first if key_to is ... else self._bound(key_to)
        if key_to is ... and first is None:
            raise TypeError("key cannot be null")
        return self._found(Lookup(first, last, 0, MAX_LONG, False, of_one=key_to is ...))

    def backward_fetch(self, key: Any, key_to: Any = ...) -> StoreIterator[Windowed[Any], Any]:
        """Return the sessions of `fetch` in the opposite order."""
        first = self._bound(key)
        last = first if key_to is ... else self._bound(key_to)
        return self._found(Lookup(first, last, 0, MAX_LONG, True, of_one=key_to is ...))

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog."""
        segments = self._segments
        for record in records:
            data = record.key
            if segments is None or len(data) < 16:
                key, start, end = split_session_key(data)
                self._sessions.put(key, start, end, self._format.restored(record))
            else:
                segments.load(data, self._format.restored(record))

    def _find(self, args: tuple[Any, ...], reverse: bool) -> StoreIterator[Windowed[Any], Any]:
        if len(args) == 3:
            key, earliest_end, latest_start = args
            first = last = self._key(key)
        else:
            first_key, last_key, earliest_end, latest_start = args
            first, last = self._bound(first_key), self._bound(last_key)  # type: ignore[assignment]
        return self._found(Lookup(first, last, earliest_end, latest_start, reverse, of_one=len(args) == 3))

    def _found(self, asked: Lookup) -> StoreIterator[Windowed[Any], Any]:
        first, last = asked.first_key, asked.last_key
        sessions = self._sessions.find(first, last, asked.first, asked.last, asked.reverse)
        if self._cache is None or (first is not None and last is not None and first > last):
            return self._iterate(sessions)
        return self._iterate(self._cache.sessions(sessions, asked))

    def _iterate(self, sessions: Iterator[Session]) -> StoreIterator[Windowed[Any], Any]:
        return StoreIterator(
            (Windowed(self._read_key(key), SessionWindow(start, end)), self._format.read(self, value))
            for key, start, end, value in sessions
        )

    def _log(self, key: bytes, value: bytes | None) -> None:
        if self.logged:
            self._changes.append(self._format.logged(self, key, value))
