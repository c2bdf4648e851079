# cython: language_level=3, annotation_typing=False
"""Windows as values: a span of time, and a key in it. C types are in `windowed.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import Any, Generic, TypeVar

K = TypeVar("K")


@cython.cclass
class Window:
    """A span of time from `start` to `end`, both in milliseconds; a subclass says whether `end` belongs to it."""

    if not cython.compiled:
        __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        if start < 0:
            raise ValueError("Window startMs time cannot be negative.")
        if end < start:
            raise ValueError("Window endMs time cannot be smaller than window startMs time.")
        self.start = start
        self.end = end

    def overlap(self, other: Window) -> bool:
        """Tell whether two windows of the same kind share an instant."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.start == other.start and self.end == other.end

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __reduce__(self) -> Any:
        return _window, (type(self), self.start, self.end)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(start={self.start}, end={self.end})"


@cython.cclass
class TimeWindow(Window):
    """A window whose end does not belong to it."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        if start == end:
            raise ValueError("Window endMs must be greater than window startMs.")

    def overlap(self, other: Window) -> bool:
        """Tell whether two windows share an instant."""
        return self.start < other.end and other.start < self.end


@cython.cclass
class SessionWindow(Window):
    """A window whose end belongs to it."""

    def overlap(self, other: Window) -> bool:
        """Tell whether two sessions share an instant."""
        return not (other.end < self.start or self.end < other.start)


@cython.cclass
class UnlimitedWindow(Window):
    """A window that has a start and never ends."""

    def __init__(self, start: int) -> None:
        super().__init__(start, 2**63 - 1)

    def overlap(self, other: Window) -> bool:
        """Tell that any two of them share an instant."""
        return True


def _window(kind: type[Window], start: int, end: int) -> Window:
    made = kind.__new__(kind)
    Window.__init__(made, start, end)
    return made


class Windowed(Generic[K]):
    """A key in a window: what windowed aggregations are keyed by."""

    __slots__ = ("key", "window")

    def __init__(self, key: K, window: Window) -> None:
        self.key = key
        self.window = window

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Windowed) and self.window == other.window and self.key == other.key

    def __hash__(self) -> int:
        key: Any = self.key
        return hash((key, self.window.start, self.window.end))

    def __str__(self) -> str:
        return f"[{self.key}@{self.window.start}/{self.window.end}]"

    def __repr__(self) -> str:
        return f"Windowed({self.key!r}, {self.window!r})"
