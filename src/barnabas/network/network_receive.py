"""Cuts the bytes of one connection into frames, with at most one copy and large frames read into place."""

from __future__ import annotations

from collections import deque

from barnabas.errors import ProtocolError

_STAGING_SIZE = 65536
# What a size is believed of at first, in bytes: more than an answer to a fetch has with the usual settings.
_FIRST_TARGET_SIZE = 64 << 20
# A consumer has one answer in hand while the next one comes.
_MOST_SPARE = 2
_SPARE_UNIT = 1 << 20


class NetworkReceive:
    """Sans-IO: read into `buffer()`, then `received(n)` gives the frames that are complete, without their sizes.

    A frame that fits the staging buffer is copied out of it; a larger one gets a buffer of its own as soon as its size
    is known, and the rest of it is read straight into that. A size that is out of the ordinary is believed by and by:
    the buffer grows as it fills. Frames stay valid for as long as they are referenced; a buffer without references
    is used again, since clean memory costs more than receiving into it. The first small frame, when the rush
    is over, lets go of them.
    """

    __slots__ = ("_end", "_filled", "_max_size", "_size", "_spare", "_staging", "_target", "_view")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._staging = bytearray(_STAGING_SIZE)
        self._view = memoryview(self._staging)
        self._end = 0
        self._target: memoryview | None = None
        # Buffers of the last large frames, most of which are still being read.
        self._spare: deque[bytearray] = deque(maxlen=_MOST_SPARE)
        self._size = 0
        self._filled = 0

    @property
    def max_size(self) -> int:
        """The largest size, in bytes, that a frame may announce."""
        return self._max_size

    @max_size.setter
    def max_size(self, value: int) -> None:
        self._max_size = value

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return self._view[self._end :] if self._target is None else self._target[self._filled :]

    def received(self, count: int) -> list[bytes | memoryview]:
        """Take note of `count` bytes in the buffer last asked for, and return the frames that they complete.

        Raises `ProtocolError` when a size is negative or larger than `max_size`; nothing after it can be read.

        """
        if self._target is not None:
            self._filled += count
            if self._filled < len(self._target):
                return []
            if self._filled < self._size:
                self._target = self._enlarged(self._target)
                return []
            frame = self._target
            self._target = None
            return [frame]
        self._end += count
        return self._cut()

    def _cut(self) -> list[bytes | memoryview]:
        frames: list[bytes | memoryview] = []
        staging = self._staging
        start = 0
        while self._end - start >= 4:
            size = int.from_bytes(staging[start : start + 4], "big", signed=True)
            if not 0 <= size <= self._max_size:
                raise ProtocolError(
                    f"the peer announced a message of {size} bytes where 0 to {self._max_size} are allowed: "
                    "it does not speak Kafka's protocol, or expects TLS"
                )
            stop = start + 4 + size
            if stop <= self._end:
                frames.append(bytes(self._view[start + 4 : stop]))
                start = stop
                self._spare.clear()
                continue
            if 4 + size > _STAGING_SIZE:
                self._start_target(start + 4, size)
                return frames
            break
        self._move_to_front(start)
        return frames

    def _start_target(self, start: int, size: int) -> None:
        target = self._large_buffer(min(size, _FIRST_TARGET_SIZE))
        self._size = size
        self._filled = self._end - start
        target[: self._filled] = self._view[start : self._end]
        self._target = target
        self._end = 0

    def _large_buffer(self, size: int) -> memoryview:
        for buffer in self._spare:
            if len(buffer) >= size and _is_unused(buffer):
                break
        else:
            # Answers of a busy broker differ a little in size.
            buffer = bytearray(-(-size // _SPARE_UNIT) * _SPARE_UNIT)
            self._spare.append(buffer)
        return memoryview(buffer)[:size]

    def _enlarged(self, full: memoryview) -> memoryview:
        target = memoryview(bytearray(min(self._size, 2 * len(full))))
        target[: len(full)] = full
        return target

    def _move_to_front(self, start: int) -> None:
        if start:
            rest = self._staging[start : self._end]
            self._staging[: len(rest)] = rest
            self._end = len(rest)


def _is_unused(buffer: bytearray) -> bool:
    """Whether no view of it is left, for only then Python lets its size change."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
