# cython: language_level=3, annotation_typing=False
"""A record of a changelog topic. C types are in `changelog_record.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.streams.serdes.serde import Headers


@cython.no_gc
@cython.freelist(64)
@cython.cclass
class ChangelogRecord:
    """A record of a changelog topic; a timestamp of None is left to its writer."""

    if not cython.compiled:
        __slots__ = ("header_list", "key", "timestamp", "value")

    def __init__(self, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers | None) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        #: A tuple where several records share them.
        self.header_list: Sequence[tuple[str, bytes | None]] | None = headers or None

    @property
    def headers(self) -> Headers:
        """Names and values, in order; the list is the record's own."""
        if type(self.header_list) is not list:
            self.header_list = list(self.header_list or ())
        return self.header_list

    def __iter__(self) -> Iterator[Any]:
        return iter((self.key, self.value, self.timestamp, self.headers))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, ChangelogRecord) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"ChangelogRecord(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp}, "
            f"headers={self.headers!r})"
        )


def last_of_each_key(changes: list[ChangelogRecord]) -> list[ChangelogRecord]:
    """Return the last record of each key, in the order in which those came."""
    last: dict[bytes, ChangelogRecord] = {}
    for change in reversed(changes):
        if change.key not in last:
            last[change.key] = change
    return list(reversed(last.values()))


def changelog_record(
    key: bytes, value: bytes | None, timestamp: int | None, headers: Sequence[tuple[str, bytes | None]] | None
) -> ChangelogRecord:
    """Return a record of a changelog, for callers in C."""
    made = ChangelogRecord.__new__(ChangelogRecord)
    made.key = key
    made.value = value
    made.timestamp = timestamp
    made.header_list = headers
    return made
