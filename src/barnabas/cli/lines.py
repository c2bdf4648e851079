"""Reads the lines of standard input, and stops in time: what was read is handed out, and what is not stays counted."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

_CHUNK = 1 << 16


class Lines:
    """The lines behind a file descriptor, without their ends, until it ends or `stop` is called.

    The last line need not have an end. `count` is how many were handed out.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._wakee, self._waker = os.pipe()
        self.is_stopped = False
        self.count = 0

    def stop(self) -> None:
        """Hand out no more; may be called by a signal handler, and ends the wait for input."""
        self.is_stopped = True
        os.write(self._waker, b"\0")

    def close(self) -> None:
        """Give back what waking takes."""
        os.close(self._wakee)
        os.close(self._waker)

    def __iter__(self) -> Iterator[bytes]:
        begun: list[bytes] = []
        while chunk := self._read():
            first, *others = chunk.split(b"\n")
            begun.append(first)
            if not others:
                continue
            for line in (b"".join(begun), *others[:-1]):
                if self.is_stopped:
                    return
                self.count += 1
                yield line
            begun = [others[-1]]
        last = b"".join(begun)
        if last and not self.is_stopped:
            self.count += 1
            yield last

    def _read(self) -> bytes:
        """Return what there is, as soon as there is some; nothing at the end and when stopped."""
        ready, _, _ = select.select([self._descriptor, self._wakee], [], [])
        return os.read(self._descriptor, _CHUNK) if not self.is_stopped and self._descriptor in ready else b""
