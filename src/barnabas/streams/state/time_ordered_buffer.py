# cython: language_level=3, annotation_typing=False
"""Buffers that hold records back until their time has come: those of suppress, and of joins with grace.

Sources: Kafka's InMemoryTimeOrderedKeyValueChangeBuffer (KIP-328) and RocksDBTimeOrderedKeyValueBuffer (KIP-923).
C types are in `time_ordered_buffer.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes.reader import Reader
from barnabas.streams.serdes.window_keys import MAX_INT, MAX_LONG
from barnabas.streams.state.buffer_changelog import CURRENT_HEADERS, current_form
from barnabas.streams.state.memory import Backend
from barnabas.streams.state.store import StoreContext, ValueAndTimestamp

if not cython.compiled:
    from barnabas.streams.serdes.buffer_value import BufferValue
    from barnabas.streams.serdes.change import make_change
    from barnabas.streams.serdes.key_bytes import named_tuple
    from barnabas.streams.state.changelog_record import changelog_record
    from barnabas.streams.state.store import SerdeStore

if TYPE_CHECKING:
    from barnabas.streams.serdes.change import Change
    from barnabas.streams.serdes.record_context import RecordContext
    from barnabas.streams.state.changelog_record import ChangelogRecord
    from barnabas.streams.topology.record import Record

_LONG = Struct(">q")
_INT = Struct(">i")


class Eviction(NamedTuple):
    """A record whose time has come."""

    key: Any
    value: Any
    context: RecordContext


@cython.cclass
class TimeOrderedChangeBuffer(SerdeStore):
    """What suppress holds back: the last change of each key, at the time at which the key was first put.

    Its changelog is written at commits, one record for each key that changed since.
    """

    def __init__(self, name: str, key_serde: Any, value_serde: Any, backend: Backend, *, logged: bool = True) -> None:
        super().__init__(name, key_serde, value_serde, logged=logged)
        self._map = backend.open(name) if backend.persistent else None
        self.persistent = backend.persistent
        self._tracked = logged or backend.persistent
        self._times: dict[bytes, int] = {}
        self._values: dict[bytes, BufferValue] = {}
        self._queue: list[tuple[int, bytes]] = []
        self._dirty: dict[bytes, None] = {}
        self._size = 0

    def init(self, context: StoreContext) -> None:
        """Open the store, with what the backend has of it."""
        super().init(context)
        for key, data in () if self._map is None else self._map.range(None, None):
            self._restore_record(key, data)

    def put(self, time: int, key: Any, change: Change, context: RecordContext) -> None:
        """Hold a change back at a time in milliseconds, or replace the one of that key."""
        data = self._key(key)
        old, new = self._value(change.old_value), self._value(change.new_value)
        held = self._values.get(data)
        prior = old if held is None else held.prior_value
        self._hold(time, data, BufferValue(prior, old, new, context))
        if self._tracked:
            self._dirty[data] = None

    def evict_while(self, wanted: Callable[[], bool], callback: Callable[[Eviction], None]) -> None:
        """Hand out the records with the least time, ties by the bytes of the key, as long as `wanted` says so."""
        while self._values and wanted():
            self._evict_head(callback)

    def evict_until(self, time: int, callback: Callable[[Eviction], None]) -> None:
        """Hand out the records whose time is not after `time`, in the order of `evict_while`."""
        while self._values and self._head()[0] <= time:
            self._evict_head(callback)

    def _evict_head(self, callback: Callable[[Eviction], None]) -> None:
        key = self._head()[1]
        held = self._values[key]
        change = make_change(self._read_value(held.new_value), self._read_value(held.old_value), True)
        callback(named_tuple(Eviction, (self._read_key(key), change, held.context)))
        heappop(self._queue)
        self._forget(key)
        if self._tracked:
            self._dirty[key] = None

    def exceeds(self, max_records: int, max_bytes: int) -> bool:
        """Tell whether more records, or more bytes, are held back than these."""
        return len(self._values) > max_records or self._size > max_bytes

    def prior_value(self, key: Any) -> tuple[bool, ValueAndTimestamp[Any] | None]:
        """Return whether a key is buffered, and the value that followers know of it."""
        held = self._values.get(self._key(key))
        if held is None:
            return False, None
        value = self._read_value(held.prior_value)
        return True, None if value is None else ValueAndTimestamp(value, -1)

    @property
    def num_records(self) -> int:
        """How many records are held back."""
        return len(self._values)

    @property
    def buffer_size(self) -> int:
        """Kafka's estimate of the bytes that they take."""
        return self._size

    @property
    def min_timestamp(self) -> int:
        """The least time of a record; the greatest possible one without records."""
        return self._head()[0] if self._values else MAX_LONG

    def flush(self) -> None:
        """Log and keep the last change of each key that changed since the last flush."""
        for key in self._dirty:
            held = self._values.get(key)
            data = None if held is None else held.to_bytes() + _LONG.pack(self._times[key])
            if self.logged:
                headers = None if data is None else CURRENT_HEADERS
                self._changes.append(changelog_record(key, data, None, headers))
            if self._map is not None:
                self._keep(key, data)
        self._dirty.clear()

    def _keep(self, key: bytes, data: bytes | None) -> None:
        if self._map is not None:
            if data is None:
                self._map.delete(key)
            else:
                self._map.put(key, data)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog, of any version. Raises `StreamsError` when one cannot be read."""
        for record in records:
            key, held = record.key, self._values.get(record.key)
            if record.value is None:
                self._keep(key, None)
                if held is not None:
                    self._forget(key)
                continue
            try:
                data = current_form(record, self.topic, None if held is None else held.prior_value)
                self._restore_record(key, data)
            except StreamsError as problem:
                offset = getattr(record, "offset", "unknown")
                raise StreamsError(
                    f"The changelog {self.topic} of {self.name} has a record that cannot be read, at offset {offset}, "
                    f"with key {key!r}: {problem}"
                ) from problem
            self._keep(key, data)

    def _restore_record(self, key: bytes, data: bytes) -> None:
        reader = Reader(data)
        held = BufferValue.from_bytes(reader)
        if key in self._values:
            self._forget(key)  # it may have been sent on and held back anew since
        self._hold(reader.long(), key, held)

    def _hold(self, time: int, key: bytes, value: BufferValue) -> None:
        held = self._values.get(key)
        if held is None:
            self._times[key] = time
            heappush(self._queue, (time, key))
            self._size += 8 + len(key)
        else:
            self._size -= held.memory_size()
        self._values[key] = value
        self._size += value.memory_size()

    def _forget(self, key: bytes) -> None:
        del self._times[key]
        held = self._values.pop(key)
        self._size -= 8 + len(key) + held.memory_size()

    def _head(self) -> tuple[int, bytes]:
        queue = self._queue
        head = queue[0]
        while self._times.get(head[1]) != head[0]:
            heappop(queue)
            head = queue[0]
        return head


class TimeOrderedKeyValueBuffer(SerdeStore):
    """What a join with grace holds back: each record, at its own time. Each change is logged at once."""

    def __init__(
        self, name: str, key_serde: Any, value_serde: Any, grace_ms: int, backend: Backend, *, logged: bool = True
    ) -> None:
        super().__init__(name, key_serde, value_serde, logged=logged)
        self._grace_ms = grace_ms
        self._map = backend.open(name)
        self._sequence = 0
        self.persistent = backend.persistent
        #: The greatest timestamp that was held back, in milliseconds; -1 before the first.
        self.observed_stream_time = -1

    def put(self, record: Record[Any, Any], context: RecordContext) -> bool:
        """Hold a record back; return False when its time has passed already."""
        if self.observed_stream_time - self._grace_ms > record.timestamp:
            return False
        self._sequence = (self._sequence + 1) & MAX_INT
        key, value = self._key(record.key), self._value(record.value)
        data = b"".join((b"\x00", _LONG.pack(record.timestamp), key, _INT.pack(self._sequence)))
        held = BufferValue(None, None, value, context).to_bytes()
        self.observed_stream_time = max(self.observed_stream_time, record.timestamp)
        self._map.put(data, held)
        if self.logged:
            self._changes.append(changelog_record(data, held + _LONG.pack(0), None, None))
        return True

    def evict(self, callback: Callable[[Eviction], None]) -> None:
        """Hand out the records that are older than the grace, in the order of time."""
        for data, held in self._expired():
            value = BufferValue.from_bytes(Reader(held))
            callback(Eviction(self._read_key(data[9:-4]), self._read_value(value.new_value), value.context))
            self._map.delete(data)
            if self.logged:
                self._changes.append(changelog_record(data, None, None, None))

    @property
    def num_records(self) -> int:
        """How many records are held back."""
        return len(self._map)

    def times(self) -> dict[str, int]:
        """Return the greatest timestamp that was held back, and the last sequence number."""
        return {"observed": self.observed_stream_time, "sequence": self._sequence}

    def restore_times(self, times: dict[str, int]) -> None:
        """Take what `times` returned."""
        self.observed_stream_time = max(self.observed_stream_time, times["observed"])
        self._sequence = times["sequence"]

    def _expired(self) -> Iterator[tuple[bytes, bytes]]:
        last = self.observed_stream_time - self._grace_ms
        if last < 0:
            return iter(())
        return self._map.range(b"\x00", b"\x00" + _LONG.pack(last) + b"\xff" * 9)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog."""
        for record in records:
            timestamp, sequence = _LONG.unpack_from(record.key, 1)[0], _INT.unpack(record.key[-4:])[0]
            self._sequence = max(self._sequence, sequence)
            self.observed_stream_time = max(self.observed_stream_time, timestamp)
            if record.value is None:
                self._map.delete(record.key)
            else:
                self._map.put(record.key, record.value[:-8])
