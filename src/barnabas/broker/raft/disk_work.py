"""What a replica of the quorum has the disk do, beside the loop.

Some of it must be on the disk before anything else happens here: whom this node votes for, the end of a log that is
cut, a snapshot that takes the log's place. Apache Kafka's thread of the quorum waits for these; here the messages wait
(`is_busy`). The flush of what was appended is the other kind: the replica goes on, and knows how far it is.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.broker.log.truncation import done_beside
from barnabas.broker.storage_threads import InlineStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.truncation import Steps
    from barnabas.broker.storage_threads import Storage


class DiskWork:
    """The disk of one replica; `storage` is where its work is done, at once where nothing else is given."""

    __slots__ = ("_waiting", "is_busy", "is_flushing", "storage")

    def __init__(self) -> None:
        self.storage: Storage = InlineStorage()
        self._waiting: deque[Steps[object]] = deque()
        #: Whether nothing may be treated or sent: the disk does not have yet what it must have first.
        self.is_busy = False
        self.is_flushing = False

    def do_first(self, steps: Steps[object]) -> None:
        """Have work done before anything else, in the order of the calls."""
        self._waiting.append(steps)
        if not self.is_busy:
            self.is_busy = True
            self._do_next()

    def _do_next(self) -> None:
        if self._waiting:
            done_beside(self._waiting.popleft(), self.storage, lambda _: self._do_next())
        else:
            self.is_busy = False

    def flush(self, steps: Steps[None], flushed: Callable[[], None]) -> None:
        """Begin a flush, while others have their turn; one at a time."""
        self.is_flushing = True

        def done(_: None) -> None:
            self.is_flushing = False
            flushed()

        done_beside(steps, self.storage, done)
