"""Keeps a consumer to one thread at a time."""

from __future__ import annotations

import threading
from types import TracebackType

from barnabas.errors import ConcurrentModificationError, IllegalStateError


class SingleThreadUse:
    """Held during every call into a consumer; the same thread may enter again, from a callback for instance.

    It never waits: a second thread gets `ConcurrentModificationError`, and `IllegalStateError` comes after `close`.
    """

    __slots__ = ("_depth", "_lock", "_owner", "is_closed")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._depth = 0
        self.is_closed = False

    def __enter__(self) -> None:
        if self.is_closed:
            raise IllegalStateError("This consumer is closed; make a new one")
        thread = threading.get_ident()
        if self._owner != thread:
            if not self._lock.acquire(blocking=False):
                raise ConcurrentModificationError(
                    "Another thread is using this consumer, which is made for one thread at a time; "
                    "only wakeup() may be called from others"
                )
            self._owner = thread
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            self._lock.release()
