"""Metadata in one SQLite file."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping

from barnabas.broker.metadata.metadata_store import (
    Change,
    Changes,
    Listener,
    MetadataStore,
    Operation,
    Subscribers,
    VersionConflictError,
)
from barnabas.errors import KafkaStorageError

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE record (key TEXT PRIMARY KEY, value TEXT, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE store (version INTEGER NOT NULL, oldest_readable INTEGER NOT NULL);
INSERT INTO store VALUES (0, 0);
COMMIT;
"""
#: The file beside the database whose room is kept for deleting topics on a full disk, and its size in bytes.
RESERVE_SUFFIX = "-reserve"
_RESERVED = 256 * 1024
#: So many deletions are remembered, for readers that want only what changed.
_TOMBSTONES = 10_000


class _Reserve:
    """Room on the disk that is put by, so that topics can be deleted when there is no other."""

    def __init__(self, path: str):
        self._path = path
        self._is_there = os.path.exists(path) and os.path.getsize(path) == _RESERVED

    def make(self) -> None:
        """Put the room by, unless that is done already or there is none."""
        if self._is_there:
            return
        try:
            with open(self._path, "wb") as file:
                file.write(bytes(_RESERVED))
            self._is_there = True
        except OSError:
            self.release()

    def release(self) -> bool:
        """Give the room back to the disk; whether there was any."""
        there, self._is_there = self._is_there, False
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        return there


def _is_full(problem: sqlite3.Error) -> bool:
    # A full disk shows in some places as a write that fails.
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


class SqliteStore(MetadataStore):
    """A store in the file `path`, created when missing, with its directory. Raises OSError, sqlite3.Error.

    Write-ahead log, synchronous=FULL: a commit survives a loss of power and costs one fsync, where a rollback journal
    costs five to nine: on a disk with 50 ms per fsync that is the difference between 18 and 3 new topics a second. The
    log lies beside the file while the broker runs, and after a crash; a clean end leaves one file.
    """

    def __init__(self, path: str):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self._path = path
        self._reserve = _Reserve(path + RESERVE_SUFFIX)
        try:
            self._open()
        except sqlite3.Error as problem:
            # On a full disk there may be no room for the write-ahead log.
            if not _is_full(problem) or not self._reserve.release():
                raise
            self._database.close()
            self._open()
        self._reserve.make()

    def _open(self) -> None:
        # It has what passwords and tokens are checked by; its other files are made with the same rights.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        self._database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._subscribers = Subscribers()
        execute = self._database.execute
        execute("PRAGMA journal_mode=WAL")
        # With a rollback journal, where the file system allows no other, it is more.
        execute("PRAGMA synchronous=EXTRA")
        if execute("SELECT count(*) FROM sqlite_master WHERE name = 'store'").fetchone()[0] == 0:
            self._database.executescript(_SCHEMA)
        self._version: int
        self._oldest_readable: int
        self._version, self._oldest_readable = execute("SELECT version, oldest_readable FROM store").fetchone()

    def read(self, version: int = 0) -> Changes:
        """See MetadataStore."""
        full = version <= 0 or version < self._oldest_readable
        rows = self._database.execute(
            "SELECT key, value, version FROM record WHERE version > ? AND (value IS NOT NULL OR NOT ?)"
            " ORDER BY version, key",
            (0 if full else version, full),
        )
        return Changes(self._version, full, [Change(k, None if v is None else json.loads(v), n) for k, v, n in rows])

    def write(
        self,
        operations: Iterable[Operation],
        expected_versions: Mapping[str, int] | None = None,
        *,
        makes_room: bool = False,
    ) -> Changes:
        """See MetadataStore. Raises KafkaStorageError when the disk refuses; then nothing was applied."""
        version = self._version + 1
        changes = [Change(key, value, version) for key, value in operations]
        try:
            try:
                oldest = self._commit(changes, expected_versions or {}, version)
            except sqlite3.Error as problem:
                if not (makes_room and _is_full(problem)) or not self._reserve.release():
                    raise
                oldest = self._commit(changes, expected_versions or {}, version)
        except sqlite3.Error as problem:
            raise KafkaStorageError(f"the metadata in {self._path} cannot be written: {problem}") from problem
        self._version, self._oldest_readable = version, oldest
        self._reserve.make()
        return Changes(version, False, changes)

    def publish(self, changes: Changes) -> None:
        """See MetadataStore."""
        self._subscribers.tell(changes)

    def _commit(self, changes: list[Change], expected_versions: Mapping[str, int], version: int) -> int:
        """Commit the changes or nothing; the oldest version that can be read from then on."""
        execute = self._database.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._check(expected_versions)
            self._database.executemany(
                "INSERT OR REPLACE INTO record VALUES (?, ?, ?)",
                [(c.key, None if c.value is None else json.dumps(c.value, sort_keys=True), version) for c in changes],
            )
            execute("UPDATE store SET version = ?", (version,))
            oldest = self._prune(version) if version % 1000 == 0 else self._oldest_readable
            execute("COMMIT")
        except BaseException:
            # After some failures SQLite has rolled back by itself.
            with contextlib.suppress(sqlite3.Error):
                execute("ROLLBACK")
            raise
        return oldest

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """See MetadataStore."""
        return self._subscribers.add(listener)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _check(self, expected_versions: Mapping[str, int]) -> None:
        for key, expected in expected_versions.items():
            row = self._database.execute(
                "SELECT version FROM record WHERE key = ? AND value IS NOT NULL", (key,)
            ).fetchone()
            found = row[0] if row else 0
            if found != expected:
                raise VersionConflictError(key, expected, found)

    def _prune(self, version: int) -> int:
        oldest: int = max(self._oldest_readable, version - _TOMBSTONES)
        self._database.execute("DELETE FROM record WHERE value IS NULL AND version <= ?", (oldest,))
        self._database.execute("UPDATE store SET oldest_readable = ?", (oldest,))
        return oldest
