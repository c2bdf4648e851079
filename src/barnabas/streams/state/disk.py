"""Bytes on disk, for state larger than memory: a file of LMDB for each task, with all of its stores.

A batch is one transaction: `commit(metadata)` keeps what it changed, together with the task's times, `abort()` forgets
it, and a process that dies leaves what was committed last. Reads go through the page cache, so memory is the system's
to give and to take, but for what was changed last (`disk_map`). Other processes may read what is committed.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.streams.errors import ProcessorStateError
from barnabas.streams.state.disk_map import DiskMap
from barnabas.streams.state.memory import Taken
from barnabas.streams.state.sorted_entries import SortedEntries

_META = b"\x00metadata"
_MAX_MAPS = 4096

#: So many entries a store takes at once of what it has gathered.
_PIECE = 1000

#: Bytes of memory that all maps together take of that before it is written.
MOST_SETTLED = 8 << 20

#: Bytes of memory that what is loaded from changelogs takes before it is written.
MOST_LOADED = 64 << 20


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
        self.txn: Any = self._env.begin(write=True)
        self._maps: dict[str, DiskMap] = {}
        self._gatherings: list[DiskGathering] = []
        self._settling = False
        with self.txn.cursor() as cursor:
            self._known = {key.decode() for key in cursor.iternext(values=False) if key != _META}

    def open(self, name: str) -> DiskMap:
        """Return the map of a name, a new one if there is none."""
        self._settle()
        found = self._maps.get(name)
        if found is None:
            found = self._maps[name] = DiskMap(self, self._handle(name))
            if self._settling:
                found.put_in_order(True)
            self._known.add(name)
        return found

    def drop(self, name: str) -> None:
        """Forget a map."""
        self._maps.pop(name, None)
        if name in self._known:
            self._known.remove(name)
            self.txn.drop(self._handle(name), delete=True)

    def names(self, prefix: str) -> list[str]:
        """Return the names of maps that begin with a prefix."""
        self._settle()
        return [name for name in self._known if name.startswith(prefix)]

    def commit(self, metadata: bytes) -> None:
        """Keep what was changed since the last commit, and the task's times with it.

        Raises `ProcessorStateError` when the disk is full; then nothing of it is kept.
        """
        self._flush()
        try:
            self.txn.put(_META, metadata)
            self.txn.commit()
        except self.error as problem:
            raise self.failed(problem) from problem
        self.txn = self._env.begin(write=True)

    def failed(self, problem: Exception) -> ProcessorStateError:
        """Return the error for what lmdb raised."""
        return ProcessorStateError(
            f"the state in {self.directory} cannot be written: {problem}. What was committed last is still there"
        )

    def abort(self) -> None:
        """Forget what was changed since the last commit. Maps must be opened again."""
        self.txn.abort()
        self.txn = self._env.begin(write=True)
        self._maps.clear()
        self._gatherings.clear()
        self._settling = False
        with self.txn.cursor() as cursor:
            self._known = {key.decode() for key in cursor.iternext(values=False) if key != _META}

    def metadata(self) -> bytes | None:
        """Return what was committed last; None before the first commit."""
        found: bytes | None = self.txn.get(_META)
        return found

    def entries(self) -> Counter[str]:
        """Return how many entries each map has; long keys that share a bucket count as one."""
        self._flush()
        stat = self.txn.stat
        return Counter({name: stat(self._handle(name))["entries"] for name in sorted(self._known)})

    def size(self) -> int:
        """Return the bytes that the file takes on disk."""
        return bytes_on_disk(self.directory)

    def close(self) -> None:
        """Close the file; what was not committed is forgotten."""
        self.txn.abort()
        self._env.close()

    def gathering(self, taken: Taken) -> DiskGathering:
        """Return where a store gathers its changelog; `taken` puts that into its maps.

        It is called before maps are opened, counted or kept, and when what is gathered takes too much memory.
        """
        found = DiskGathering(self, taken)
        self._gatherings.append(found)
        return found

    def make_room(self, wanted: int) -> None:
        """Write what is loaded and gathered, where it would take too much memory with so many more bytes."""
        if self.loaded_bytes + wanted > MOST_LOADED:
            self._flush()

    @property
    def loaded_bytes(self) -> int:
        """The memory that is taken by what is loaded or gathered and not in LMDB yet."""
        gathered = sum([each.entries.memory for each in self._gatherings])
        return gathered + sum([each.loaded_bytes for each in self._maps.values()])

    def settle(self, entries: SortedEntries, taken: Taken) -> None:
        """Have a store take what it has gathered: it puts one key after the other, so that LMDB gets them in order."""
        entries.sort()
        self._put_in_order(True)
        try:
            while not entries.is_empty:
                taken(entries.take(_PIECE, True))
                if sum([each.loaded_bytes for each in self._maps.values()]) > MOST_SETTLED:
                    self._flush_maps()
        finally:
            self._put_in_order(False)

    def _put_in_order(self, in_order: bool) -> None:
        self._settling = in_order
        for each in self._maps.values():
            each.put_in_order(in_order)

    def _flush(self) -> None:
        self._settle()
        self._flush_maps()

    def _settle(self) -> None:
        if self._settling:
            return  # a store opens a map
        for each in self._gatherings:
            each.settle()

    def _flush_maps(self) -> None:
        for each in self._maps.values():
            each.flush()

    def _handle(self, name: str) -> Any:
        return self._env.open_db(name.encode(), txn=self.txn)


class DiskGathering:
    """What a store gathers of its changelog, to look keys up in their order, each once for all that came of it."""

    def __init__(self, backend: DiskBackend, taken: Taken) -> None:
        self._backend = backend
        self._taken = taken
        self.entries = SortedEntries()

    def grow(self, size: int) -> SortedEntries:
        """Return the entries with room for one of so many bytes, after those there are were taken if need be."""
        self._backend.make_room(self.entries.growth(size))
        self.entries.grow(size)
        return self.entries

    def settle(self) -> None:
        """Have the store take what is gathered."""
        if self.entries.is_empty:
            return
        entries, self.entries = self.entries, SortedEntries()
        self._backend.settle(entries, self._taken)


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
