"""Where cluster metadata lives: one interface, several homes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

#: A record's content: what JSON can hold.
Value = dict[str, Any]


class Change(NamedTuple):
    """One record as some version left it; `value` is None when that version deleted it."""

    key: str
    value: Value | None
    version: int


class Changes(NamedTuple):
    """Records in the order of their versions, up to `version`; `full`: there are no records but these."""

    version: int
    full: bool
    changes: Sequence[Change]


class Operation(NamedTuple):
    """What `apply` does to one key: puts `value`, or deletes the record when `value` is None."""

    key: str
    value: Value | None


class VersionConflictError(Exception):
    """Another writer has changed a record since it was read; nothing was applied."""

    def __init__(self, key: str, expected: int, found: int):
        super().__init__(f"metadata record {key!r} is at version {found}, not at {expected}; read it again")
        self.key = key
        self.expected = expected
        self.found = found


Listener = Callable[[Changes], None]


class MetadataStore:
    """Records under keys that look like paths (`topics/flights`), all under one growing version.

    Every `apply` is one transaction and makes the next version; each record knows the version that last changed it.
    It has two halves: `write` waits for the disk and may run in any thread, one at a time; `publish` follows on the
    thread that owns the store.
    """

    def read(self, version: int = 0) -> Changes:
        """Return what changed after `version`; everything (`full`) for 0 or when that version is too long ago."""
        raise NotImplementedError

    def apply(
        self,
        operations: Iterable[Operation],
        expected_versions: Mapping[str, int] | None = None,
        *,
        makes_room: bool = False,
    ) -> int:
        """Apply all operations or none, durably, and notify the subscribers; gives the new version. See `write`."""
        changes = self.write(operations, expected_versions, makes_room=makes_room)
        self.publish(changes)
        return changes.version

    def write(
        self,
        operations: Iterable[Operation],
        expected_versions: Mapping[str, int] | None = None,
        *,
        makes_room: bool = False,
    ) -> Changes:
        """Write all operations or none, durably; gives what is to be published.

        `expected_versions` names for some keys the version their record must have, 0 for no record; a different one
        raises VersionConflictError. What the home cannot write raises KafkaStorageError. With `makes_room` a home on a
        full disk uses what it has put by for this: what is deleted now frees more.
        """
        raise NotImplementedError

    def publish(self, changes: Changes) -> None:
        """Notify the subscribers of what was written."""
        raise NotImplementedError

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the changes after each `apply`; what is returned ends that."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what the home holds."""
        raise NotImplementedError


class Subscribers:
    """The listeners of one store."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: dict[int, Listener] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; the returned function removes it."""
        token = max(self._listeners, default=0) + 1
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    def tell(self, changes: Changes) -> None:
        """Call every listener, the oldest first."""
        for listener in list(self._listeners.values()):
            listener(changes)
