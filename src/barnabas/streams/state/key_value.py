# cython: language_level=3, annotation_typing=False
"""Stores from key to value, with the values' timestamps or without. C types are in `key_value.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from barnabas.streams.serdes.change import Change
from barnabas.streams.state.caching import KeyValueCache
from barnabas.streams.state.memory import Backend, increment
from barnabas.streams.state.store import VALID_TO_UNDEFINED, StoreContext, StoreIterator, ValueAndTimestamp

if not cython.compiled:
    from barnabas.streams.state.changelog_record import changelog_record
    from barnabas.streams.state.store import SerdeStore
    from barnabas.streams.state.value_format import TimestampedFormat, ValueFormat
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.serdes.record_context import RecordContext
    from barnabas.streams.state.changelog_record import ChangelogRecord
    from barnabas.streams.state.record_cache import RecordCache


@cython.cclass
class KeyValueStore(SerdeStore):
    """Keeps the last value of each key. Putting None deletes."""

    def __init__(self, name: str, key_serde: Any, value_serde: Any, backend: Backend, *, logged: bool = True) -> None:
        super().__init__(name, key_serde, value_serde, logged=logged)
        self.persistent = backend.persistent
        self._map = backend.open(name)
        self._format = ValueFormat()
        self._cache: KeyValueCache | None = None

    def enable_cache(self, shared: RecordCache, segment_interval_ms: int) -> None:
        """Hold updates back until a commit, or until the shared cache is full."""
        self._cache = KeyValueCache(self, shared)

    def set_flush_listener(self, listener: Callable[[Any], None], send_old_values: bool) -> bool:
        """Let `listener` take records with a `Change` when the cache lets them go; False when there is no cache."""
        if self._cache is None:
            return False

        def flushed(key: bytes, new: bytes | None, old: bytes | None, context: RecordContext) -> None:
            now, before = self._format.read(self, new), self._format.read(self, old)
            change = Change(self._format.plain(now), self._format.plain(before))
            timestamp = self._format.time(now, context.timestamp)
            listener(make_record(self._read_key(key), change, timestamp, context.headers))

        self._cache.set_flush_listener(flushed, send_old_values)
        return True

    def flush(self) -> None:
        """Write what the cache holds back."""
        if self._cache is not None:
            self._cache.flush()

    def get_behind(self, key: bytes) -> bytes | None:
        """Return what is kept of a key behind the cache."""
        return self._map.get(key)

    def put_behind(self, key: bytes, value: bytes | None) -> None:
        """Write to the map and the changelog, past the cache."""
        if value is None:
            self._map.delete(key)
        else:
            self._map.put(key, value)
        if self.logged:
            self._changes.append(self._format.logged(self, key, value))

    def range_behind(
        self, first: bytes | None, last: bytes | None, reverse: bool, open_end: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return entries behind the cache."""
        return self._map.range(first, last, reverse, open_end)

    def _stored(self, key: bytes) -> bytes | None:
        if self._cache is not None:
            return self._cache.get(key)
        return self._map.get(key)

    def _range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> StoreIterator[Any, Any]:
        if self._cache is not None:
            return self._iterate(self._cache.range(first, last, reverse, open_end))
        return self._iterate(self._map.range(first, last, reverse, open_end))

    def get(self, key: Any) -> Any:
        """Return the value of a key, None for none. Raises TypeError for a key of None."""
        return self._format.read(self, self._stored(self._key(key)))

    def put(self, key: Any, value: Any) -> None:
        """Keep a value; None deletes. Raises TypeError for a key of None."""
        self._put(self._key(key), self._format.write(self, value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Keep a value unless there is one; return the one that there was."""
        data = self._key(key)
        found = self._stored(data)
        if found is None:
            self._put(data, self._format.write(self, value))
        return self._format.read(self, found)

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Keep several values."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Forget a key; return the value that it had."""
        data = self._key(key)
        found = self._stored(data)
        self._put(data, None)
        return self._format.read(self, found)

    def range(self, first: Any, last: Any) -> StoreIterator[Any, Any]:
        """Return entries from one key to another, both included, in the order of their bytes; None for no bound."""
        return self._range(self._bound(first), self._bound(last))

    def reverse_range(self, first: Any, last: Any) -> StoreIterator[Any, Any]:
        """Return the entries of `range` from the last to the first."""
        return self._range(self._bound(first), self._bound(last), reverse=True)

    def all(self) -> StoreIterator[Any, Any]:
        """Return all entries in the order of their keys' bytes."""
        return self._range(None, None)

    def reverse_all(self) -> StoreIterator[Any, Any]:
        """Return all entries, the last first."""
        return self._range(None, None, reverse=True)

    def prefix_scan(self, prefix: Any, prefix_serde: Any) -> StoreIterator[Any, Any]:
        """Return the entries whose keys' bytes begin with those of `prefix`, written by `prefix_serde`."""
        serialize = getattr(prefix_serde, "serialize", None)
        first: bytes = prefix_serde(prefix) if serialize is None else serialize(self.topic, prefix, [])
        return self._range(first, increment(first), open_end=True)

    def approximate_num_entries(self) -> int:
        """Return how many entries there are."""
        return len(self._map)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog."""
        for record in records:
            self._map.load(record.key, self._format.restored(record))

    def _iterate(self, entries: Iterator[tuple[bytes, bytes]]) -> StoreIterator[Any, Any]:
        return StoreIterator((self._read_key(key), self._format.read(self, value)) for key, value in entries)

    def _put(self, key: bytes, value: bytes | None) -> None:
        if self._cache is not None:
            self._cache.put(key, value)
        else:
            self.put_behind(key, value)


@cython.cclass
class TimestampedKeyValueStore(KeyValueStore):
    """Keeps the last value of each key with its timestamp, as `ValueAndTimestamp`.

    With a `HeadersFormat`, headers are kept as well, as `ValueTimestampHeaders`.
    """

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        backend: Backend,
        *,
        logged: bool = True,
        value_format: TimestampedFormat | None = None,
    ) -> None:
        super().__init__(name, key_serde, value_serde, backend, logged=logged)
        self._format: TimestampedFormat = value_format or TimestampedFormat()

    def get_with_timestamp(self, key: Any) -> ValueAndTimestamp[Any] | None:
        """Return value and timestamp, which tables ask of a store of any kind."""
        return self._format.read(self, self._stored(self._key(key)))  # type: ignore[no-any-return]

    def put_with_timestamp(self, key: Any, value: Any, timestamp: int) -> int:
        """Keep a value with its timestamp; None deletes. Return `VALID_TO_UNDEFINED`: it is the latest."""
        data, value_data = self._key(key), self._value(value)
        written = self._format
        if value_data is None or self._cache is not None:
            self._put(data, written.stamped(value_data, timestamp))
            return VALID_TO_UNDEFINED
        self._map.put(data, written.stamped(value_data, timestamp))  # type: ignore[arg-type]  # it is not None
        if self.logged:
            headers = self._header_list() if written.logs_headers else None
            self._changes.append(changelog_record(data, value_data, timestamp, headers))
        return VALID_TO_UNDEFINED


@cython.cclass
class LRUStore(KeyValueStore):
    """Keeps the entries that were used last, at most `max_entries`; evicted ones are deleted in the changelog too."""

    def __init__(
        self, name: str, key_serde: Any, value_serde: Any, backend: Backend, max_entries: int, *, logged: bool = True
    ) -> None:
        super().__init__(name, key_serde, value_serde, backend, logged=logged)
        self._max_entries = max_entries
        self._used: dict[bytes, None] = {}

    def init(self, context: StoreContext) -> None:
        """Open the store."""
        super().init(context)
        self._used = dict.fromkeys(key for key, _ in self._map.range(None, None))

    def get(self, key: Any) -> Any:
        """Return the value of a key, None for none; it counts as used."""
        return self._format.read(self, self._stored(self._key(key)))

    def get_behind(self, key: bytes) -> bytes | None:
        """Return what is kept of a key; it counts as used."""
        found = self._map.get(key)
        if found is not None:
            self._touch(key)
        return found

    def _stored(self, key: bytes) -> bytes | None:
        return self.get_behind(key) if self._cache is None else self._cache.get(key)

    def put_behind(self, key: bytes, value: bytes | None) -> None:
        """Write to the map and the changelog, and evict what is too much."""
        KeyValueStore.put_behind(self, key, value)  # where C calls a method, `super()` knows no class
        self._use(key, value, self.logged)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog, whose keys count as used; what is too much goes, and is not logged again."""
        for record in records:
            data = self._format.restored(record)
            self._map.load(record.key, data)
            self._use(record.key, data, False)

    def _use(self, key: bytes, value: bytes | None, logged: bool) -> None:
        if value is None:
            self._used.pop(key, None)
            return
        self._touch(key)
        while len(self._used) > self._max_entries:
            eldest = next(iter(self._used))
            del self._used[eldest]
            self._map.delete(eldest)
            if logged:
                self._changes.append(self._format.logged(self, eldest, None))

    def _touch(self, key: bytes) -> None:
        self._used.pop(key, None)
        self._used[key] = None
