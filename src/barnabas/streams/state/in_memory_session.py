"""Sessions in memory, sorted by end, key, start (the last first): Kafka's InMemorySessionStore."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakSet

from barnabas.streams.serdes.window_keys import MAX_LONG
from barnabas.streams.state.session_bytes import Session
from barnabas.streams.state.skip_list_map import SkipListIterator, SkipListMap, drop_expired

#: The sessions of one end, by key and start.
Keys = SkipListMap[bytes, SkipListMap[int, bytes]]


class InMemorySessions:
    """Maps by end, key and start. What is put while sessions are read is seen, as in Kafka: see `SkipListIterator`."""

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self._ends: SkipListMap[int, Keys] = SkipListMap()
        #: The ends of each key: what one key has is found without a look at the others.
        self._of_key: dict[bytes, SkipListMap[int, bool]] = {}
        self._open: WeakSet[_OpenSessions] = WeakSet()
        self.observed_stream_time = -1

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> bool:
        """Keep a value, or delete it with None; return False when the session is too old."""
        self._drop_expired()
        self.observed_stream_time = max(self.observed_stream_time, end)
        if end <= self.observed_stream_time - self._retention_ms:
            return False
        if value is None:
            self.remove(key, start, end)
            return True
        keys = self._ends.get(end)
        if keys is None:
            keys = SkipListMap()
            self._ends.put(end, keys)
        starts = keys.get(key)
        if starts is None:
            starts = SkipListMap()
            keys.put(key, starts)
            self._of_key.setdefault(key, SkipListMap()).put(end, True)
        starts.put(start, value)
        return True

    def remove(self, key: bytes, start: int, end: int) -> None:
        """Forget a session."""
        keys = self._ends.get(end)
        starts = None if keys is None else keys.get(key)
        if keys is None or starts is None:
            return
        starts.pop(start)
        if not len(starts):
            keys.pop(key)
            self._forget_end_of(key, end)
            if not len(keys):
                self._ends.pop(end)

    def _forget_end_of(self, key: bytes, end: int) -> None:
        ends = self._of_key[key]
        ends.pop(end)
        if not len(ends):
            del self._of_key[key]

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return the value of a session, None for none."""
        self._drop_expired()
        if end <= self.observed_stream_time - self._retention_ms:
            return None
        keys = self._ends.get(end)
        starts = None if keys is None else keys.get(key)
        return None if starts is None else starts.get(start)

    def find(
        self, first_key: bytes | None, last_key: bytes | None, earliest_end: int, latest_start: int, reverse: bool
    ) -> Iterator[Session]:
        """Return the sessions of keys, None for no bound, that touch a span of time."""
        if first_key is not None and last_key is not None and first_key > last_key:
            return iter(())
        return self._opened((first_key, last_key), (earliest_end, MAX_LONG), latest_start, reverse)

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[Session]:
        """Return the sessions that ended between two times, both included."""
        return self._opened((None, None), (earliest_end, latest_end), MAX_LONG, False)

    def next_end_of(self, key: bytes, end: int, reverse: bool) -> int | None:
        """Return the first end of a session of a key after another, or the last before it."""
        ends = self._of_key.get(key)
        return None if ends is None else ends.beside(end, reverse)

    def _opened(
        self, keys: tuple[bytes | None, bytes | None], ends: tuple[int, int], latest_start: int, reverse: bool
    ) -> Iterator[Session]:
        self._drop_expired()
        opened = _OpenSessions(self, SkipListIterator(self._ends, *ends, reverse), keys, latest_start, reverse)
        self._open.add(opened)
        return opened

    def _drop_expired(self) -> None:
        live = self.observed_stream_time - self._retention_ms + 1
        for end, keys in drop_expired(self._ends, live, self._open):
            for key in keys:
                self._forget_end_of(key, end)


class _OpenSessions:
    """Kafka's InMemorySessionStoreIterator; `time` is the end it is at: from there on nothing expires."""

    __slots__ = ("__weakref__", "_ends", "_first", "_key", "_keys", "_last", "_latest_start", "_reverse",
                 "_sessions", "_starts", "time")  # fmt: skip

    def __init__(
        self,
        sessions: InMemorySessions,
        ends: SkipListIterator[int, Keys],
        keys: tuple[bytes | None, bytes | None],
        latest_start: int,
        reverse: bool,
    ) -> None:
        self._sessions = sessions
        self._ends = ends
        self._first, self._last = keys
        self._latest_start = latest_start
        self._reverse = reverse
        self.time = 0
        self._key = b""
        self._keys: Iterator[tuple[bytes, SkipListMap[int, bytes]]] = iter(())
        self._starts: SkipListIterator[int, bytes] | None = self._next_end()

    def __iter__(self) -> _OpenSessions:
        return self

    def __next__(self) -> Session:
        starts = self._starts
        if starts is not None and starts.ahead is None:
            starts = self._starts = self._next_key() or self._next_end()
        if starts is None:
            raise StopIteration
        start, value = next(starts)
        return self._key, start, self.time, value

    def _next_key(self) -> SkipListIterator[int, bytes] | None:
        for key, kept in self._keys:
            self._key = key
            starts = SkipListIterator(kept, None, self._latest_start, not self._reverse)
            if starts.ahead is not None:
                return starts
        return None

    def _next_end(self) -> SkipListIterator[int, bytes] | None:
        self._skip_ends_of_others()
        for end, kept in self._ends:
            self.time = end
            self._keys = SkipListIterator(kept, self._first, self._last, self._reverse)
            starts = self._next_key()
            if starts is not None:
                return starts
            self._skip_ends_of_others()
        return None

    def _skip_ends_of_others(self) -> None:
        """Go on to the next end of the key, if one is asked for; Kafka passes the ends of others one by one."""
        ahead, key = self._ends.ahead, self._first
        if ahead is None or key is None or key != self._last or ahead[1].get(key) is not None:
            return
        end = self._sessions.next_end_of(key, ahead[0], self._reverse)
        if end is None:
            self.time = self._ends.to_the_end() or self.time
        else:
            self._ends.go_on(end, included=True)
