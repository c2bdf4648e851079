"""What held from which offset on (LogHistory)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Entry(NamedTuple, Generic[T]):
    """A value, and the offset of the record that says so."""

    offset: int
    value: T


class LogHistory(Generic[T]):
    """Values by offset, ascending."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Entry[T]] = []

    @property
    def last(self) -> Entry[T] | None:
        """The newest entry."""
        return self._entries[-1] if self._entries else None

    def add(self, offset: int, value: T) -> None:
        """Add an entry; one at the same offset is replaced."""
        if self._entries and self._entries[-1].offset >= offset:
            self.truncate_new(offset)
        self._entries.append(Entry(offset, value))

    def value_at(self, offset: int) -> T | None:
        """Return what held at an offset."""
        found = bisect_right(self._entries, offset, key=_offset)
        return self._entries[found - 1].value if found else None

    def truncate_new(self, end_offset: int) -> None:
        """Forget what was said at or behind an offset."""
        del self._entries[bisect_left(self._entries, end_offset, key=_offset) :]

    def truncate_old(self, start_offset: int) -> None:
        """Forget what was said before an offset, but for the last that was.

        That is kept also where there is an entry at the offset itself, which `truncate_new` may still take away. Apache
        Kafka drops it then, and goes by what was configured.
        """
        del self._entries[: max(0, bisect_left(self._entries, start_offset, key=_offset) - 1)]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()


def _offset(entry: Entry[T]) -> int:
    return entry.offset
