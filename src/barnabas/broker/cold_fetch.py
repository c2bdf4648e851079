"""A Fetch of records that the system's cache lacks: they are read beside the loop, and then answered as usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.log.cold_range import ColdRange
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.protocol.messages.fetch_response import FetchResponse


class ColdFetch(DelayedOperation):
    """Waits until the ranges were read once, and answers with `finish(now)`, which reads whatever is there then.

    Nothing of what was read is kept but in the system's cache; should that have lost it again, the loop waits.
    """

    __slots__ = ("_finish", "_is_read")

    def __init__(self, manager: ReplicaManager, ranges: Sequence[ColdRange], finish: Callable[[float], FetchResponse]):
        super().__init__(keys=(self,))
        self._finish = finish
        self._is_read = False

        def note() -> None:
            self._is_read = True
            manager.wake(self)

        manager.bring_in(ranges, note)

    def try_complete(self, now: float) -> FetchResponse | None:
        """Return the response once all was read."""
        return self._finish(now) if self._is_read else None
