"""Records that a message has without holding their bytes."""

from __future__ import annotations


class StoredRecords:
    """Records that lie in a file; the sender of the message takes them from there.

    In the place of a `records` field it is written by its length, `len()`, and is a part of its own (`sized_parts`).
    """

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError
