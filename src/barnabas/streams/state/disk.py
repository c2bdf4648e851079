"""Bytes on disk, for state larger than memory: a file of LMDB for each task, with all of its stores.

A batch is one transaction: `commit(metadata)` keeps what it changed, together with the task's times, `abort()` forgets
it, and a process that dies leaves what was committed last. Reads go through the page cache, so memory is the system's
to give and to take. Other processes may read what is committed.

LMDB takes keys of 511 bytes: those of `LONG` bytes and more lie in buckets, one for all keys that begin with the same
`LONG` bytes, so that order is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from weakref import ref

from barnabas.streams.errors import ProcessorStateError
from barnabas.streams.serdes.reader import Reader, sized
from barnabas.streams.state.snapshot import Entry, Snapshot

#: Keys from this length on lie in buckets.
LONG = 500

#: Keys from this one on are stored as they are; see `_stored`.
_FIRST_PLAIN = b"\x01"

_META = b"\x00metadata"
_MAX_MAPS = 4096


class DiskBackend:
    """The maps of a task in a directory, which it makes. `size_limit` is what the file may grow to, in bytes.

    Raises `ProcessorStateError` when the directory cannot be opened or another process writes it, and when lmdb is
    missing, which `pip install barnabas[streams]` brings.
    """

    persistent = True

    def __init__(self, directory: Path | str, *, size_limit: int = 1 << 40) -> None:
        try:
            lmdb: Any = import_module("lmdb")
        except ImportError as problem:
            raise ProcessorStateError("state on disk needs lmdb: pip install 'barnabas[streams]'") from problem
        #: What lmdb raises.
        self.error: type[Exception] = lmdb.Error
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._env = lmdb.open(
                str(self.directory), map_size=size_limit, max_dbs=_MAX_MAPS, metasync=False, readahead=False
            )
        except (OSError, lmdb.Error) as problem:
            raise ProcessorStateError(f"the state in {directory} cannot be opened: {problem}") from problem
        self.transaction: Any = self._env.begin(write=True)
        self._maps: dict[str, DiskMap] = {}
        with self.transaction.cursor() as cursor:
            self._known = {key.decode() for key in cursor.iternext(values=False) if key != _META}

    def open(self, name: str) -> DiskMap:
        """Return the map of a name, a new one if there is none."""
        found = self._maps.get(name)
        if found is None:
            found = self._maps[name] = DiskMap(self, name, self._handle(name))
            self._known.add(name)
        return found

    def drop(self, name: str) -> None:
        """Forget a map."""
        self._maps.pop(name, None)
        if name in self._known:
            self._known.remove(name)
            self.transaction.drop(self._handle(name), delete=True)

    def names(self, prefix: str) -> list[str]:
        """Return the names of maps that begin with a prefix."""
        return [name for name in self._known if name.startswith(prefix)]

    def commit(self, metadata: bytes) -> None:
        """Keep what was changed since the last commit, and the task's times with it.

        Raises `ProcessorStateError` when the disk is full; then nothing of it is kept.
        """
        try:
            self.transaction.put(_META, metadata)
            self.transaction.commit()
        except self.error as problem:
            raise self.failed(problem) from problem
        self.transaction = self._env.begin(write=True)

    def failed(self, problem: Exception) -> ProcessorStateError:
        """Return the error for what lmdb raised."""
        return ProcessorStateError(
            f"the state in {self.directory} cannot be written: {problem}. What was committed last is still there"
        )

    def abort(self) -> None:
        """Forget what was changed since the last commit. Maps must be opened again."""
        self.transaction.abort()
        self.transaction = self._env.begin(write=True)
        self._maps.clear()
        with self.transaction.cursor() as cursor:
            self._known = {key.decode() for key in cursor.iternext(values=False) if key != _META}

    def metadata(self) -> bytes | None:
        """Return what was committed last; None before the first commit."""
        found: bytes | None = self.transaction.get(_META)
        return found

    def entries(self) -> Counter[str]:
        """Return how many entries each map has; long keys that share a bucket count as one."""
        stat = self.transaction.stat
        return Counter({name: stat(self._handle(name))["entries"] for name in sorted(self._known)})

    def size(self) -> int:
        """Return the bytes that the file takes on disk."""
        return bytes_on_disk(self.directory)

    def close(self) -> None:
        """Close the file; what was not committed is forgotten."""
        self.transaction.abort()
        self._env.close()

    def _handle(self, name: str) -> Any:
        return self._env.open_db(name.encode(), txn=self.transaction)


class DiskContent(NamedTuple):
    """What a directory holds: the metadata of the last commit (None before it), and the entries of each map."""

    metadata: bytes | None
    entries: Counter[str]


def look_into(directory: Path) -> DiskContent:
    """Return what was committed last in a directory, which another process may be writing.

    Raises `ProcessorStateError` when it cannot be opened, and when lmdb is missing.
    """
    try:
        lmdb: Any = import_module("lmdb")
    except ImportError as problem:
        raise ProcessorStateError("state on disk needs lmdb: pip install 'barnabas[streams]'") from problem
    try:
        with lmdb.open(str(directory), readonly=True, max_dbs=_MAX_MAPS, create=False) as found:
            with found.begin() as transaction, transaction.cursor() as cursor:
                names = [bytes(key) for key in cursor.iternext(values=False) if key != _META]
            handles = {name: found.open_db(name, create=False) for name in names}
            with found.begin() as transaction:
                entries = {name.decode(): transaction.stat(handle)["entries"] for name, handle in handles.items()}
                return DiskContent(transaction.get(_META), Counter(entries))
    except (OSError, lmdb.Error) as problem:
        raise ProcessorStateError(f"the state in {directory} cannot be read: {problem}") from problem


def bytes_on_disk(directory: Path) -> int:
    """Return the bytes that the file of a directory takes."""
    return sum(file.stat().st_blocks * 512 for file in directory.glob("data.mdb"))


class DiskMap:
    """One of the backend's maps."""

    def __init__(self, backend: DiskBackend, name: str, handle: Any) -> None:
        self._backend = backend
        self._name = name
        self._handle = handle
        self._snapshots: list[ref[Snapshot]] = []

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none."""
        stored = _stored(key)
        if len(stored) >= LONG:
            return dict(self._bucket(stored[:LONG])).get(stored)
        found: bytes | None = self._backend.transaction.get(stored, db=self._handle)
        return found

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""
        stored = _stored(key)
        if len(stored) >= LONG:
            self._write(stored, value)
        else:
            self._put(stored, value)

    def put_all(self, entries: dict[bytes, bytes]) -> None:
        """Keep many values; in the order of their keys, which LMDB stores fastest."""
        if max(map(len, entries), default=0) >= LONG - 1:
            for key, value in entries.items():
                self.put(key, value)
            return
        rows = sorted(entries.items(), key=itemgetter(0))
        if rows and rows[0][0] < _FIRST_PLAIN:
            rows = [(_stored(key), value) for key, value in rows]
        for stored, _ in rows if self._snapshots else ():
            self._keep_for_snapshots(stored)
        backend = self._backend
        try:
            with backend.transaction.cursor(db=self._handle) as cursor:
                cursor.putmulti(rows)
        except backend.error as problem:
            raise backend.failed(problem) from problem

    def delete(self, key: bytes) -> bytes | None:
        """Forget a key; return the value that it had."""
        found = self.get(key)
        if found is not None:
            stored = _stored(key)
            if len(stored) >= LONG:
                self._write(stored, None)
            else:
                self._delete(stored)
        return found

    def range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return entries from `first` to `last`, both included (`last` not if `open_end`), None for no bound.

        They are those of the call: what is put, changed or deleted later is not seen. They are read in pieces.
        """
        if reverse:
            start = None if last is None else _stored(last)[:LONG] + b"\x00"
            snapshot = Snapshot(self._before, start, reverse=True)
        else:
            snapshot = Snapshot(self._from, b"\x00" if first is None else _stored(first)[:LONG], reverse=False)
        self._snapshots.append(ref(snapshot, self._snapshots.remove))
        return _between(_unpacked(snapshot, reverse), first, last, reverse, open_end)

    def _from(self, at: bytes | None, count: int) -> list[Entry]:
        with self._backend.transaction.cursor(db=self._handle) as cursor:
            return list(islice(cursor.iternext(), count)) if cursor.set_range(at) else []

    def _before(self, at: bytes | None, count: int) -> list[Entry]:
        with self._backend.transaction.cursor(db=self._handle) as cursor:
            found = cursor.last() if at is None or not cursor.set_range(at) else cursor.prev()
            return list(islice(cursor.iterprev(), count)) if found else []

    def _bucket(self, prefix: bytes) -> list[Entry]:
        data = self._backend.transaction.get(prefix, db=self._handle)
        return [] if data is None else _in_bucket(prefix, data)

    def _write(self, key: bytes, value: bytes | None) -> None:
        prefix = key[:LONG]
        entries = [entry for entry in self._bucket(prefix) if entry[0] != key]
        if value is not None:
            entries.insert(bisect_left(entries, key, key=lambda entry: entry[0]), (key, value))
        if entries:
            self._put(prefix, b"".join(sized(found[LONG:]) + sized(held) for found, held in entries))
        else:
            self._delete(prefix)

    def _put(self, stored: bytes, data: bytes) -> None:
        if self._snapshots:
            self._keep_for_snapshots(stored)
        backend = self._backend
        try:
            backend.transaction.put(stored, data, db=self._handle)
        except backend.error as problem:
            raise backend.failed(problem) from problem

    def _delete(self, stored: bytes) -> None:
        if self._snapshots:
            self._keep_for_snapshots(stored)
        self._backend.transaction.delete(stored, db=self._handle)

    def _keep_for_snapshots(self, stored: bytes) -> None:
        data: bytes | None = self._backend.transaction.get(stored, db=self._handle)
        for each in tuple(self._snapshots):
            snapshot = each()
            if snapshot is not None:
                snapshot.keep(stored, data)

    def __len__(self) -> int:
        entries: int = self._backend.transaction.stat(self._handle)["entries"]
        return entries


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
