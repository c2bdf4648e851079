# cython: language_level=3, annotation_typing=False
"""A change of a table, as it goes from node to node. C types are in `change.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import Any


@cython.freelist(32)
@cython.cclass
class Change:
    """An update of a table: the new value, the old one if it was asked for, and whether the new one is the latest."""

    if not cython.compiled:
        __slots__ = ("is_latest", "new_value", "old_value")

    def __init__(self, new_value: Any, old_value: Any, is_latest: bool = True) -> None:
        self.new_value = new_value
        self.old_value = old_value
        self.is_latest = is_latest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return (self.new_value, self.old_value, self.is_latest) == (other.new_value, other.old_value, other.is_latest)

    def __hash__(self) -> int:
        return hash((self.new_value, self.old_value, self.is_latest))

    def __repr__(self) -> str:
        return f"({self.new_value}<-{self.old_value})"


def make_change(new_value: Any, old_value: Any, is_latest: bool) -> Change:
    """Return a change, for callers in C."""
    made = Change.__new__(Change)
    made.new_value = new_value
    made.old_value = old_value
    made.is_latest = is_latest
    return made
