"""Metadata in memory: for the simulator and for brokers that keep nothing."""

from __future__ import annotations

import copy
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


class MemoryStore(MetadataStore):
    """A store that lives as long as the object.

    `fail(makes_room)` is asked before each change and may return the error that it is to fail with.
    """

    def __init__(self) -> None:
        self.fail: Callable[[bool], KafkaStorageError | None] | None = None
        self._version = 0
        self._records: dict[str, Change] = {}
        self._subscribers = Subscribers()

    def read(self, version: int = 0) -> Changes:
        """See MetadataStore."""
        full = version <= 0
        found = [c for c in self._records.values() if c.version > version and not (full and c.value is None)]
        found.sort(key=lambda change: (change.version, change.key))
        return Changes(self._version, full, copy.deepcopy(found))

    def write(
        self,
        operations: Iterable[Operation],
        expected_versions: Mapping[str, int] | None = None,
        *,
        makes_room: bool = False,
    ) -> Changes:
        """See MetadataStore."""
        problem = self.fail(makes_room) if self.fail is not None else None
        if problem is not None:
            raise problem
        for key, expected in (expected_versions or {}).items():
            record = self._records.get(key)
            found = record.version if record is not None and record.value is not None else 0
            if found != expected:
                raise VersionConflictError(key, expected, found)
        self._version += 1
        changes = [Change(key, copy.deepcopy(value), self._version) for key, value in operations]
        for change in changes:
            self._records[change.key] = change
        return Changes(self._version, False, copy.deepcopy(changes))

    def publish(self, changes: Changes) -> None:
        """See MetadataStore."""
        self._subscribers.tell(changes)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """See MetadataStore."""
        return self._subscribers.add(listener)

    def close(self) -> None:
        """Nothing is held."""
