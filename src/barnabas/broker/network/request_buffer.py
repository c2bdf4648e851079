"""Cuts what a connection receives into frames, without copying them."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.errors import InvalidRequestError

#: Requests up to this size share one buffer per connection; a larger one gets a buffer of its own.
SHARED_BUFFER_SIZE = 64 * 1024
#: The buffer of a large request is at most so many times as large as what has come of it: a size is only a claim.
_GROWTH = 4
#: ... unless the connection has already sent a request as large, up to this size; then it is allocated at once.
_MAX_TRUST = 4 << 20
#: So many buffers of connections that have nothing in them are kept for others.
_MAX_SPARE = 64
#: So many buffers of large requests are kept for the next ones, each of at most `_MAX_TRUST`: memory that is new has to
#: be cleared by the system, a page at a time.
_MAX_SPARE_LARGE = 2
_LARGEST_REQUEST = "socket.request.max.bytes"


class RequestMemory:
    """What the large requests of all connections may take together: `queued.max.request.bytes`, -1 for any amount.

    As in Apache Kafka a request gets all that it needs as long as anything is left, else it waits.
    """

    __slots__ = ("_spare", "_waiting", "limit", "used")

    def __init__(self, limit: int = -1):
        self.limit = limit
        self.used = 0
        self._spare: list[bytearray] = []
        self._waiting: dict[Callable[[], None], None] = {}

    def try_allocate(self, size: int, try_again: Callable[[], None]) -> bool:
        """Memory for a request, or False when it has to wait; `try_again` is called when something was given back."""
        if 0 <= self.limit <= self.used:
            self._waiting[try_again] = None
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        """Note that a request is over."""
        self.used -= size
        waiting, self._waiting = self._waiting, {}
        for try_again in waiting:
            try_again()

    def buffer(self, size: int) -> memoryview:
        """Return a buffer of `size` bytes, not cleared, to be given back with `keep`."""
        for index, spare in enumerate(self._spare):
            if len(spare) >= size:
                return memoryview(self._spare.pop(index))[:size]
        return memoryview(bytearray(-(-size // SHARED_BUFFER_SIZE) * SHARED_BUFFER_SIZE))[:size]

    def keep(self, buffer: memoryview) -> None:
        """Take back a buffer that is not used any more: the next large request may have it."""
        owner = buffer.obj
        assert isinstance(owner, bytearray)
        if len(owner) <= _MAX_TRUST:
            self._spare.insert(0, owner)
            del self._spare[_MAX_SPARE_LARGE:]


class RequestBuffer:
    """Bytes come in through `space()` and `filled(n)`; frames go out through `next_frame()`.

    A frame is a writable view without its size field. It is valid until `space()` is called again: who wants to keep
    any of it makes a copy. While no frames are taken, `has_space` becomes False: then stop reading. A connection with
    nothing in its buffer gives it to `spare` with `release()`, so that idle ones cost next to nothing.
    """

    __slots__ = (
        "_end",
        "_large",
        "_large_end",
        "_large_size",
        "_limited_by",
        "_max_size",
        "_memory",
        "_spare",
        "_start",
        "_taken",
        "_taken_out",
        "_trust",
        "_view",
        "try_again",
    )

    def __init__(self, max_size: int, spare: list[memoryview] | None = None, memory: RequestMemory | None = None):
        self._max_size = max_size
        self._limited_by = _LARGEST_REQUEST
        self._memory = memory or RequestMemory()
        self.try_again: Callable[[], None] = lambda: None
        """Called when a large request that had to wait for memory may have it; then `next_frame` goes on."""
        self._taken = 0
        self._spare = [] if spare is None else spare
        self._view: memoryview | None = None
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        self._large_end = 0
        self._large_size = 0
        self._taken_out: memoryview | None = None
        self._trust = 0

    def limit(self, size: int, setting: str = _LARGEST_REQUEST) -> None:
        """Let requests from the next one on have so many bytes at most, as a setting says."""
        self._max_size, self._limited_by = size, setting

    @property
    def memory(self) -> int:
        """The bytes it holds."""
        return (len(self._view) if self._view is not None else 0) + (len(self._large) if self._large is not None else 0)

    @property
    def has_space(self) -> bool:
        """Whether more bytes can be taken in before a frame is taken out."""
        if self._large is not None:
            return self._large_end < self._large_size
        return self._start > 0 or self._end < SHARED_BUFFER_SIZE

    def space(self) -> memoryview:
        """Where to put the next bytes; never empty as long as `has_space`."""
        if self._large is not None:
            if self._large_end == len(self._large):
                self._grow(self._large)
            return self._large[self._large_end :]
        view = self._view
        if view is None:
            view = self._view = self._spare.pop() if self._spare else memoryview(bytearray(SHARED_BUFFER_SIZE))
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start > 0 and SHARED_BUFFER_SIZE - self._end < SHARED_BUFFER_SIZE // 2:
            rest = bytes(view[self._start : self._end])
            view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        return view[self._end :]

    def filled(self, count: int) -> None:
        """Note that the first `count` bytes of `space()` now hold data."""
        if self._large is not None:
            self._large_end += count
        else:
            self._end += count

    def release(self) -> None:
        """Give away what nothing is in; no frame may be in use."""
        if self._taken and self._large is None:
            self._give_back()
        if self._start == self._end and self._view is not None:
            if len(self._spare) < _MAX_SPARE:
                self._spare.append(self._view)
            self._view = None
            self._start = self._end = 0

    def discard(self) -> None:
        """Note that the connection is over: give everything away."""
        self._large = None
        self._start = self._end
        self.release()

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame, if there is one. Raises InvalidRequestError for an impossible size."""
        large = self._large
        if large is not None:
            if self._large_end < self._large_size:
                return None
            self._large = None
            self._taken_out = large
            self._trust = min(max(self._trust, self._large_size), _MAX_TRUST)
            return large
        start = self._start
        available = self._end - start - 4
        view = self._view
        if available < 0 or view is None:
            return None
        size = int.from_bytes(view[start : start + 4], "big", signed=True)
        if size <= available and size >= 0:
            self._start = start + 4 + size
            return view[start + 4 : start + 4 + size]
        self._check(size)
        if size > SHARED_BUFFER_SIZE - 4:
            self._begin_large(view, size, available)
        return None

    def _check(self, size: int) -> None:
        if size < 0:
            raise InvalidRequestError(f"a request cannot have a size of {size} bytes")
        if size > self._max_size:
            raise InvalidRequestError(f"a request of {size} bytes is larger than {self._limited_by}={self._max_size}")

    def _begin_large(self, view: memoryview, size: int, available: int) -> None:
        if self._taken:
            # Of the frame before, which has been worked on.
            self._give_back()
        if not self._memory.try_allocate(size, self.try_again):
            return
        self._taken = size
        room = max(self._trust, _GROWTH * SHARED_BUFFER_SIZE)
        self._large = self._memory.buffer(min(size, room))
        self._large[:available] = view[self._start + 4 : self._end]
        self._large_end = available
        self._large_size = size
        self._start = self._end = 0

    def _grow(self, full: memoryview) -> None:
        self._large = self._memory.buffer(min(self._large_size, _GROWTH * len(full)))
        self._large[: len(full)] = full
        self._memory.keep(full)

    def _give_back(self) -> None:
        if self._taken_out is not None:
            self._memory.keep(self._taken_out)
            self._taken_out = None
        self._memory.release(self._taken)
        self._taken = 0
