# cython: language_level=3, annotation_typing=False
"""A map of a task on disk: entries of an LMDB database, before them what was changed last, in memory.

A task changes the same keys again and again: what it changes waits in a dict, and goes to LMDB sorted by key when a
range is iterated over, when the state is kept, and when `MOST_WAITING` bytes wait. A join or a session asks for the few
`entries` of a key with each record, so there what waits is kept in order as well, and searched beside LMDB. What is
loaded from a changelog is gathered in larger pieces, for the more keys fall on one page of LMDB the less it takes, and
no processor looks for it meanwhile. Histories of versions are gathered before their maps (`disk`), and put key by key
in order, for which a map needs to remember one entry only. C types are in `disk_map.pxd`.

LMDB takes keys of 511 bytes: those of `LONG` bytes and more lie in buckets, one for all keys that begin with the same
`LONG` bytes, so that order is kept.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol
from weakref import ref

from barnabas.streams.errors import ProcessorStateError
from barnabas.streams.serdes.reader import Reader, sized
from barnabas.streams.state.snapshot import Entry, Snapshot

if not cython.compiled:
    from barnabas.streams.state.memory import OrderedBytes
    from barnabas.streams.state.sorted_entries import SortedEntries


class LmdbFile(Protocol):
    """What a map takes of its backend: the transaction that is open, and what becomes of LMDB's errors."""

    txn: Any
    error: type[Exception]

    def make_room(self, wanted: int) -> None:
        """Write what is loaded, where it would take too much memory with so many more bytes."""

    def failed(self, problem: Exception) -> ProcessorStateError:
        """Return what is raised in place of an error of LMDB's."""


#: Keys from this length on lie in buckets.
LONG = 500

#: Bytes of keys and values that wait for LMDB at most, those that were replaced in the meantime among them.
MOST_WAITING = 4 << 20

#: Keys that wait at most where they are kept in order.
MOST_ORDERED = 1000

#: What an entry that waits takes beside its bytes, about.
_ENTRY = 100

#: So many entries cost less one by one than sorted.
_FEW = 4

#: Entries that LMDB is given with one call.
_PIECE = 1000

_ABSENT = object()


@cython.cclass
class DiskMap(OrderedBytes):
    """One of a backend's maps, on a database of LMDB."""

    def __init__(self, backend: LmdbFile, handle: Any) -> None:
        self._backend = backend
        self._handle = handle
        self._snapshots: list[ref[Snapshot]] = []
        #: What is not in LMDB yet; None for what is to be deleted there.
        self._waiting: dict[bytes, bytes | None] = {}
        self._waiting_bytes = 0
        #: The keys that wait, in order, once `entries` was called.
        self._order: list[bytes] | None = None
        #: What is loaded and not in LMDB yet; then nothing waits.
        self._loaded: SortedEntries | None = None
        #: No key of LMDB's is greater; None when that is not known.
        self._last: bytes | None = None
        #: Keys are asked for and put in their order: all is loaded but the entry that was put last.
        self._in_order = False
        self._current: bytes | None = None
        self._current_value: bytes | None = None

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none."""
        if self._in_order:
            return self._current_value if key == self._current else self._written(key)
        if self._loaded is not None:
            self.flush()
        found = self._waiting.get(key, _ABSENT)
        return self._written(key) if found is _ABSENT else found  # type: ignore[return-value]  # a value, or None

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""
        if self._in_order:
            self._go_on(key, value)
            return
        if self._loaded is not None:
            self.flush()
        if self._order is not None:
            self._note(key)
        self._waiting[key] = value
        self._waiting_bytes += len(key) + len(value) + _ENTRY
        if self._waiting_bytes > MOST_WAITING:
            self.flush()

    def load(self, key: bytes, value: bytes | None) -> None:
        """Keep a value, or delete it with None, as one of very many that no caller looks for meanwhile."""
        stored = _stored(key)
        if len(stored) >= LONG:
            self.flush()
            self._change_bucket(stored, value)
            return
        if self._loaded is None:
            self.flush()
            self._loaded = SortedEntries()
        if not self._loaded.add(stored, value):
            self._grow(stored, value)

    def put_in_order(self, in_order: bool) -> None:
        """Say that keys will be asked for and put in their order only, none again after a later one; or any more."""
        self.flush()
        self._in_order = in_order

    def _go_on(self, key: bytes, value: bytes | None) -> None:
        if key != self._current:
            self._load_current()
        self._current = key
        self._current_value = value

    def _load_current(self) -> None:
        key, self._current = self._current, None
        if key is None:
            return
        stored = _stored(key)
        if len(stored) >= LONG:
            self._change_bucket(stored, self._current_value)
            return
        if self._loaded is None:
            self._loaded = SortedEntries()
        if not self._loaded.add(stored, self._current_value):
            self._loaded.grow(len(stored) + len(self._current_value or b""))
            self._loaded.add(stored, self._current_value)

    def _grow(self, stored: bytes, value: bytes | None) -> None:
        size = len(stored) + len(value or b"")
        self._backend.make_room(self._loaded.growth(size))  # type: ignore[union-attr]  # it is not None
        if self._loaded is None:  # that was written to make room
            self._loaded = SortedEntries()
        self._loaded.grow(size)
        self._loaded.add(stored, value)

    @property
    def loaded_bytes(self) -> int:
        """The memory that is taken by what is loaded and not in LMDB yet."""
        return 0 if self._loaded is None else self._loaded.memory

    def delete(self, key: bytes) -> bytes | None:
        """Forget a key; return the value that it had."""
        found: bytes | None = self.get(key)
        if found is not None:
            if self._in_order:
                self._go_on(key, None)
                return found
            if self._order is not None:
                self._note(key)
            self._waiting[key] = None
            self._waiting_bytes += len(key) + _ENTRY
        return found

    def range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return entries from `first` to `last`, both included (`last` not if `open_end`), None for no bound.

        They are those of the call: what is put, changed or deleted later is not seen. They are read in pieces.
        """
        self.flush()
        if reverse:
            start = None if last is None else _stored(last)[:LONG] + b"\x00"
            snapshot = Snapshot(self._before, start, reverse=True)
        else:
            snapshot = Snapshot(self._from, b"\x00" if first is None else _stored(first)[:LONG], reverse=False)
        self._snapshots.append(ref(snapshot, self._snapshots.remove))
        return _between(_unpacked(snapshot, reverse), first, last, reverse, open_end)

    def entries(self, first: bytes, last: bytes) -> list[Entry]:
        """Return the entries from `first` to `last`, both included, all at once: for ranges of few entries."""
        if len(first) >= LONG - 1 or len(last) >= LONG - 1:
            return list(self.range(first, last))
        order = self._order
        if order is None:
            order = self._order = sorted(self._waiting)
        found: list[Entry] = []
        upper = _stored(last)
        with self._backend.txn.cursor(db=self._handle) as cursor:
            if cursor.set_range(_stored(first)):
                for stored, value in cursor.iternext():
                    if stored > upper:
                        break
                    if len(stored) >= LONG:
                        return list(self.range(first, last))
                    found.append((_key(stored), value))
        begin, end = bisect_left(order, first), bisect_right(order, last)
        return found if begin >= end else self._with_waiting(found, order[begin:end])

    def _with_waiting(self, found: list[Entry], keys: list[bytes]) -> list[Entry]:
        waiting = self._waiting
        entries: dict[bytes, bytes | None] = dict(found)
        for key in keys:
            entries[key] = waiting[key]
        return [(key, value) for key in sorted(entries) if (value := entries[key]) is not None]

    def _note(self, key: bytes) -> None:
        if key not in self._waiting:
            if len(self._order) >= MOST_ORDERED:  # type: ignore[arg-type]  # it is not None
                self.flush()
            insort(self._order, key)  # type: ignore[arg-type]

    def flush(self) -> None:
        """Write what waits or is loaded to LMDB. Raises `ProcessorStateError` when the disk is full."""
        if self._in_order:
            self._load_current()
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            self._write_sorted(loaded)
        waiting = self._waiting
        if not waiting:
            return
        size = self._waiting_bytes
        self._waiting = {}
        self._waiting_bytes = 0
        if self._order is not None:
            self._order = []
        if len(waiting) <= _FEW:
            for key, value in waiting.items():
                self._write(_stored(key), value)
            return
        entries = SortedEntries()
        entries.grow_to(size, len(waiting))
        for key, value in waiting.items():
            stored = _stored(key)
            if len(stored) >= LONG:
                self._change_bucket(stored, value)
            else:
                entries.add(stored, value)
        self._write_sorted(entries)

    def _write(self, stored: bytes, value: bytes | None) -> None:
        if len(stored) >= LONG:
            self._change_bucket(stored, value)
        elif value is None:
            self._delete(stored)
        else:
            self._put(stored, value)

    def _written(self, key: bytes) -> bytes | None:
        stored = _stored(key)
        if len(stored) >= LONG:
            return dict(self._bucket(stored[:LONG])).get(stored)
        if self._last is None:
            self._last = self._last_stored()
        if stored > self._last:
            return None
        return self._backend.txn.get(stored, None, self._handle)  # type: ignore[no-any-return]

    def _last_stored(self) -> bytes:
        with self._backend.txn.cursor(db=self._handle) as cursor:
            return cursor.key() if cursor.last() else b""

    def _write_sorted(self, entries: SortedEntries) -> None:
        """Write entries in the order of their keys, which LMDB stores fastest, above all those after its last."""
        backend = self._backend
        entries.sort()
        try:
            with backend.txn.cursor(db=self._handle) as cursor:
                while not entries.is_empty:
                    rows = entries.take(_PIECE)
                    for stored, _ in rows if self._snapshots else ():
                        self._keep_for_snapshots(stored)
                    if rows:
                        cursor.putmulti(rows, append=not cursor.last() or cursor.key() < rows[0][0])
        except backend.error as problem:
            raise backend.failed(problem) from problem
        self._last = None
        for stored in entries.deleted:
            self._delete(stored)

    def _from(self, at: bytes | None, count: int) -> list[Entry]:
        with self._backend.txn.cursor(db=self._handle) as cursor:
            return list(islice(cursor.iternext(), count)) if cursor.set_range(at) else []

    def _before(self, at: bytes | None, count: int) -> list[Entry]:
        with self._backend.txn.cursor(db=self._handle) as cursor:
            found = cursor.last() if at is None or not cursor.set_range(at) else cursor.prev()
            return list(islice(cursor.iterprev(), count)) if found else []

    def _bucket(self, prefix: bytes) -> list[Entry]:
        data = self._backend.txn.get(prefix, None, self._handle)
        return [] if data is None else _in_bucket(prefix, data)

    def _change_bucket(self, key: bytes, value: bytes | None) -> None:
        prefix = key[:LONG]
        entries = [entry for entry in self._bucket(prefix) if entry[0] != key]
        if value is not None:
            entries.insert(bisect_left([entry[0] for entry in entries], key), (key, value))
        if entries:
            self._put(prefix, b"".join([sized(found[LONG:]) + sized(held) for found, held in entries]))
        else:
            self._delete(prefix)

    def _put(self, stored: bytes, data: bytes) -> None:
        if self._snapshots:
            self._keep_for_snapshots(stored)
        self._last = None
        backend = self._backend
        try:
            backend.txn.put(stored, data, db=self._handle)
        except backend.error as problem:
            raise backend.failed(problem) from problem

    def _delete(self, stored: bytes) -> None:
        if self._snapshots:
            self._keep_for_snapshots(stored)
        self._backend.txn.delete(stored, db=self._handle)

    def _keep_for_snapshots(self, stored: bytes) -> None:
        data: bytes | None = self._backend.txn.get(stored, None, self._handle)
        for each in tuple(self._snapshots):
            snapshot = each()
            if snapshot is not None:
                snapshot.keep(stored, data)

    def __len__(self) -> int:
        self.flush()
        return self._backend.txn.stat(self._handle)["entries"]  # type: ignore[no-any-return]


def _stored(key: bytes) -> bytes:
    """Return a key as it is stored: LMDB takes none without bytes, so what begins with 0 gets another one in front."""
    return key if key and key[0] else b"\x00" + key


def _key(stored: bytes) -> bytes:
    return stored if stored[0] else stored[1:]


def _in_bucket(prefix: bytes, data: bytes) -> list[Entry]:
    reader = Reader(data)
    entries = []
    while reader.at < len(data):
        entries.append((prefix + (reader.sized() or b""), reader.sized() or b""))
    return entries


def _unpacked(entries: Iterable[Entry], reverse: bool) -> Iterator[Entry]:
    """Yield entries under their own keys, those of buckets one by one."""
    for stored, data in entries:
        if len(stored) < LONG:
            yield _key(stored), data
        else:
            bucket = _in_bucket(stored, data)
            for key, value in reversed(bucket) if reverse else bucket:
                yield _key(key), value


def _between(
    entries: Iterable[Entry], first: bytes | None, last: bytes | None, reverse: bool, open_end: bool
) -> Iterator[Entry]:
    for key, value in entries:
        if first is not None and key < first:
            if reverse:
                return
            continue
        if last is not None and (key > last or (open_end and key == last)):
            if not reverse:
                return
            continue
        yield key, value
