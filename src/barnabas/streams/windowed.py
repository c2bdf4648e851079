# cython: language_level=3, annotation_typing=False
"""Windows as values: a span of time, and a key in it.

C types are in `windowed.pxd`, types for type checkers in `windowed.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython

from types import GenericAlias


@cython.cclass
class Window:
    """A span of time from `start` to `end`, both in milliseconds; a subclass says whether `end` belongs to it."""

    if not cython.compiled:
        __slots__ = ("end", "start")

    def __init__(self, start, end):
        if start < 0:
            raise ValueError("Window startMs time cannot be negative.")
        if end < start:
            raise ValueError("Window endMs time cannot be smaller than window startMs time.")
        self.start = start
        self.end = end

    def overlap(self, other):
        """Tell whether two windows of the same kind share an instant."""
        raise NotImplementedError

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self.start == other.start and self.end == other.end

    def __hash__(self):
        return hash((self.start, self.end))

    def __reduce__(self):
        return _window, (type(self), self.start, self.end)

    def __repr__(self):
        return f"{type(self).__name__}(start={self.start}, end={self.end})"


@cython.cclass
class TimeWindow(Window):
    """A window whose end does not belong to it."""

    def __init__(self, start, end):
        super().__init__(start, end)
        if start == end:
            raise ValueError("Window endMs must be greater than window startMs.")

    def overlap(self, other):
        """Tell whether two windows share an instant."""
        return self.start < other.end and other.start < self.end


@cython.cclass
class SessionWindow(Window):
    """A window whose end belongs to it."""

    def overlap(self, other):
        """Tell whether two sessions share an instant."""
        return not (other.end < self.start or self.end < other.start)


@cython.cclass
class UnlimitedWindow(Window):
    """A window that has a start and never ends."""

    def __init__(self, start):
        super().__init__(start, 2**63 - 1)

    def overlap(self, other):
        """Tell that any two of them share an instant."""
        return True


def _window(kind, start, end):
    made = kind.__new__(kind)
    Window.__init__(made, start, end)
    return made


def make_time_window(start, end):
    """Return a window of which it is known that it can be, for callers in C."""
    made = TimeWindow.__new__(TimeWindow)
    made.start = start
    made.end = end
    return made


def make_session_window(start, end):
    """Return a session of which it is known that it can be, for callers in C."""
    made = SessionWindow.__new__(SessionWindow)
    made.start = start
    made.end = end
    return made


def time_windows(timestamp, size_ms, advance_ms):
    """Return the windows of a size that a timestamp belongs to, one of which begins at each advance."""
    if advance_ms == size_ms:
        start = timestamp - timestamp % size_ms
        return [make_time_window(start, start + size_ms)]
    first = max(0, timestamp - size_ms + advance_ms) // advance_ms * advance_ms
    return [make_time_window(start, start + size_ms) for start in range(first, timestamp + 1, advance_ms)]


@cython.freelist(64)
@cython.cclass
class Windowed:
    """A key in a window: what windowed aggregations are keyed by."""

    if not cython.compiled:
        __slots__ = ("key", "window")

    def __init__(self, key, window):
        self.key = key
        self.window = window

    @classmethod
    def __class_getitem__(cls, key_type):
        """`Windowed[str]`, for annotations."""
        return GenericAlias(cls, key_type)

    def __eq__(self, other):
        return isinstance(other, Windowed) and self.window == other.window and self.key == other.key

    def __hash__(self):
        return hash((self.key, self.window.start, self.window.end))

    def __reduce__(self):
        return type(self), (self.key, self.window)

    def __str__(self):
        return f"[{self.key}@{self.window.start}/{self.window.end}]"

    def __repr__(self):
        return f"Windowed({self.key!r}, {self.window!r})"


def make_windowed(key, window):
    """Return a key in a window, for callers in C."""
    made = Windowed.__new__(Windowed)
    made.key = key
    made.window = window
    return made
