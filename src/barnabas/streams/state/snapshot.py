"""What an iterator of a map on disk sees: the map as it was when the iterator was made, as with RocksDB's snapshots.

LMDB's cursors in a write transaction see what it writes. So a map tells its open snapshots of each entry that is about
to change, and they keep what it was, if they have still to come to it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator

#: An entry: its key as it is stored, and its data.
Entry = tuple[bytes, bytes]

#: Entries that are read at first, since most ranges (the partners of a record, say) have few; and at most at once.
FIRST_PIECE = 4
PIECE = 256


class Snapshot:
    """The entries of a map from a key on, in order or (`reverse`) in the opposite one.

    `read` returns at most so many entries as they are now: those from a key on, or those before it in reverse (None:
    from the last one).
    """

    def __init__(self, read: Callable[[bytes | None, int], list[Entry]], start: bytes | None, *, reverse: bool) -> None:
        self._read = read
        self._size = FIRST_PIECE
        self._at = start
        self._reverse = reverse
        self._finished = False
        self._before: dict[bytes, bytes | None] = {}
        self._changed: list[bytes] = []

    def keep(self, key: bytes, data: bytes | None) -> None:
        """Take what an entry is before it changes; None if there is none."""
        if self._finished or key in self._before or self._is_behind(key):
            return
        self._before[key] = data
        insort(self._changed, key)

    def _is_behind(self, key: bytes) -> bool:
        return self._at is not None and (key >= self._at if self._reverse else key < self._at)

    def __iter__(self) -> Iterator[Entry]:
        while not self._finished:
            yield from self._next_piece()

    def _next_piece(self) -> list[Entry]:
        piece = self._read(self._at, self._size)
        self._finished = len(piece) < self._size
        self._size = min(4 * self._size, PIECE)
        changed = self._changed_up_to(None if self._finished else piece[-1][0])
        if not self._finished:
            self._at = piece[-1][0] if self._reverse else piece[-1][0] + b"\x00"
        if not changed:
            return piece
        entries: dict[bytes, bytes | None] = {**dict(piece), **{key: self._before.pop(key) for key in changed}}
        return [(key, data) for key in sorted(entries, reverse=self._reverse) if (data := entries[key]) is not None]

    def _changed_up_to(self, end: bytes | None) -> list[bytes]:
        """Take the changed keys up to the end of a piece, which is included; None for all."""
        keys = self._changed
        if end is None:
            self._changed = []
            return keys
        if self._reverse:
            at = bisect_left(keys, end)
            self._changed = keys[:at]
            return keys[at:]
        at = bisect_right(keys, end)
        self._changed = keys[at:]
        return keys[:at]
