"""Metadata in one SQLite file."""

from __future__ import annotations

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

FILE_NAME = "metadata.sqlite"

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE record (key TEXT PRIMARY KEY, value TEXT, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE store (version INTEGER NOT NULL, oldest_readable INTEGER NOT NULL);
INSERT INTO store VALUES (0, 0);
COMMIT;
"""
#: So many deletions are remembered, for readers that want only what changed.
_TOMBSTONES = 10_000


class SqliteStore(MetadataStore):
    """A store in the file `path`, created when missing, with its directory. Raises OSError, sqlite3.Error.

    Rollback journal, synchronous=EXTRA: one file at rest, and a commit survives a power failure. Measured: 1.1 ms per
    commit against 0.2 ms for a write-ahead log, which would leave two more files; metadata changes are rare.
    """

    def __init__(self, path: str):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._subscribers = Subscribers()
        execute = self._database.execute
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

    def apply(self, operations: Iterable[Operation], expected_versions: Mapping[str, int] | None = None) -> int:
        """See MetadataStore. Raises KafkaStorageError when the disk refuses; then nothing was applied."""
        version = self._version + 1
        changes = [Change(key, value, version) for key, value in operations]
        execute = self._database.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._check(expected_versions or {})
            self._database.executemany(
                "INSERT OR REPLACE INTO record VALUES (?, ?, ?)",
                [(c.key, None if c.value is None else json.dumps(c.value, sort_keys=True), version) for c in changes],
            )
            execute("UPDATE store SET version = ?", (version,))
            oldest = self._prune(version) if version % 1000 == 0 else self._oldest_readable
            execute("COMMIT")
        except (sqlite3.Error, VersionConflictError) as problem:
            if self._database.in_transaction:
                execute("ROLLBACK")
            if isinstance(problem, sqlite3.Error):
                raise KafkaStorageError(f"the metadata cannot be written: {problem}") from problem
            raise
        self._version, self._oldest_readable = version, oldest
        self._subscribers.tell(Changes(version, False, changes))
        return version

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
