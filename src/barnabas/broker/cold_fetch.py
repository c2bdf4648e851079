"""A Fetch of records that the system's cache lacks: they are read beside the loop, and then answered as usual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.log.cold_range import ColdRange
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.protocol.messages.fetch_response import FetchResponse

#: How often something is brought in for one read: indexes, then records.
READS: Final = 2


class ColdFetch(DelayedOperation):
    """Waits until the ranges were read once, and answers with `finish(now)`, which reads what is there then.

    `look` gives what is missing still: records, where it were their indexes that were read first. Nothing of what was
    read is kept but in the system's cache; should that have lost it again, the loop waits.
    """

    __slots__ = ("_finish", "_look", "_manager", "_reads_left")

    def __init__(
        self,
        manager: ReplicaManager,
        ranges: Sequence[ColdRange],
        look: Callable[[], Sequence[ColdRange]],
        finish: Callable[[float], FetchResponse],
    ):
        super().__init__(keys=(self,))
        self._manager = manager
        self._look = look
        self._finish = finish
        self._reads_left = READS
        self._bring_in(ranges)

    def _bring_in(self, ranges: Sequence[ColdRange]) -> None:
        def note() -> None:
            self._reads_left -= 1
            self._manager.wake(self)

        self._manager.bring_in(ranges, note)

    def try_complete(self, now: float) -> FetchResponse | None:
        """Return the response once all was read."""
        if self._reads_left:
            missing = self._look()
            if missing:
                self._bring_in(missing)
                return None
        return self._finish(now)
