# cython: language_level=3, annotation_typing=False
"""The store that left and outer joins of streams share: a list of values for a time, side and key (ListValueStore)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.streams.serdes.join_side import list_from_bytes, list_to_bytes
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.memory import Backend
from barnabas.streams.state.store import SerdeStore, StoreIterator


class JoinListStore(SerdeStore):
    """Adds values to the list of a key; putting None deletes the list."""

    def __init__(self, name: str, key_serde: Any, value_serde: Any, backend: Backend, *, logged: bool = True) -> None:
        super().__init__(name, key_serde, value_serde, logged=logged)
        self._map = backend.open(name)
        self.persistent = backend.persistent

    def put(self, key: Any, value: Any) -> None:
        """Add a value to the list of a key; None deletes the list."""
        self._put(self._key(key), self._value(value))

    def put_if_absent(self, key: Any, value: Any) -> None:
        """Do what `put` does, but only where there is a list."""
        data = self._key(key)
        if self._map.get(data) is not None:
            self._put(data, self._value(value))

    def all(self) -> StoreIterator[Any, Any]:
        """Return all values with their keys, in the order of the keys, then in that in which they were put."""
        return StoreIterator(
            (self._read_key(key), self._read_value(value))
            for key, values in self._map.range(None, None)
            for value in list_from_bytes(values)
        )

    def approximate_num_entries(self) -> int:
        """Return how many lists there are."""
        return len(self._map)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog."""
        for record in records:
            if record.value is None:
                self._map.delete(record.key)
            else:
                self._map.put(record.key, record.value)

    def _put(self, key: bytes, value: bytes | None) -> None:
        written: bytes | None = None
        if value is None:
            self._map.delete(key)
        else:
            found = self._map.get(key)
            written = list_to_bytes([value] if found is None else [*list_from_bytes(found), value])
            self._map.put(key, written)
        if self.logged:
            self._changes.append(ChangelogRecord(key, written, self._timestamp(), None))
