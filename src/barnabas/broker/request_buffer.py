"""Cuts what a connection receives into frames, without copying them."""

from __future__ import annotations

from barnabas.errors import InvalidRequestError

#: Requests up to this size share one buffer per connection; a larger one gets a buffer of its own, of its size.
SHARED_BUFFER_SIZE = 64 * 1024


class RequestBuffer:
    """Bytes come in through `space()` and `filled(n)`; frames go out through `next_frame()`.

    A frame is a writable view without its size field. It is valid until `space()` is called again: who wants to keep
    any of it makes a copy. While nobody takes frames, `has_space` becomes False: then stop reading.
    """

    __slots__ = ("_end", "_large", "_large_end", "_max_size", "_start", "_view")

    def __init__(self, max_size: int):
        self._max_size = max_size
        self._view = memoryview(bytearray(SHARED_BUFFER_SIZE))
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        self._large_end = 0

    @property
    def has_space(self) -> bool:
        """Whether more bytes can be taken in before a frame is taken out."""
        if self._large is not None:
            return self._large_end < len(self._large)
        return self._start > 0 or self._end < SHARED_BUFFER_SIZE

    def space(self) -> memoryview:
        """Where to put the next bytes; never empty as long as `has_space`."""
        if self._large is not None:
            return self._large[self._large_end :]
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start > 0 and SHARED_BUFFER_SIZE - self._end < SHARED_BUFFER_SIZE // 2:
            rest = bytes(self._view[self._start : self._end])
            self._view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        return self._view[self._end :]

    def filled(self, count: int) -> None:
        """The first `count` bytes of `space()` now hold data."""
        if self._large is not None:
            self._large_end += count
        else:
            self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame, if there is one. Raises InvalidRequestError for an impossible size."""
        large = self._large
        if large is not None:
            if self._large_end < len(large):
                return None
            self._large = None
            return large
        start = self._start
        available = self._end - start - 4
        if available < 0:
            return None
        size = int.from_bytes(self._view[start : start + 4], "big", signed=True)
        if size <= available and size >= 0:
            self._start = start + 4 + size
            return self._view[start + 4 : start + 4 + size]
        self._check(size)
        if size > SHARED_BUFFER_SIZE - 4:
            self._begin_large(size, available)
        return None

    def _check(self, size: int) -> None:
        if size < 0:
            raise InvalidRequestError(f"a request cannot have a size of {size} bytes")
        if size > self._max_size:
            raise InvalidRequestError(
                f"a request of {size} bytes is larger than socket.request.max.bytes={self._max_size}"
            )

    def _begin_large(self, size: int, available: int) -> None:
        self._large = memoryview(bytearray(size))
        self._large[:available] = self._view[self._start + 4 : self._end]
        self._large_end = available
        self._start = self._end = 0
