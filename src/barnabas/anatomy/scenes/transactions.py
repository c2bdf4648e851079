"""Transactions: a transactional id of a coordinator as a state machine, and the markers in its partitions' logs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_KINDS = {"CompleteCommit": "good", "CompleteAbort": "split", "Empty": "waiting", "Ongoing": "open", "Dead": "bad"}
#: State → what its partitions do that have no marker yet.
_PARTITIONS = {"Ongoing": "open", "PrepareCommit": "waiting", "PrepareAbort": "waiting"}


class TransactionScene:
    """One transactional id."""

    def __init__(self, subject: str) -> None:
        self._id = subject
        self._states: deque[Box] = deque(maxlen=LAST)
        self._changes = 0
        self._producer_id = -1
        self._partitions: dict[str, Box] = {}

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the transactional id."""
        return event.transactional_id if isinstance(event, events.TransactionState) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if isinstance(event, events.MarkerWritten):
            return event.producer_id == self._producer_id and self._marked(event)
        if not isinstance(event, events.TransactionState) or event.transactional_id != self._id:
            return False
        self._changes += 1
        facts: Facts = {
            "producer_id": event.producer_id,
            "epoch": event.epoch,
            "partitions": event.partitions,
        }
        self._states.append(Box(f"state {self._changes}", event.state, _KINDS.get(event.state, "moving"), facts))
        self._producer_id = event.producer_id
        self._take_part(event)
        return True

    def _take_part(self, event: events.TransactionState) -> None:
        kind = _PARTITIONS.get(event.state)
        if kind is None:
            return
        names = event.names.split(",") if event.names else []
        if kind == "open":
            self._partitions = {}
        for name in names:
            known = self._partitions.get(name)
            # A marker may be there before the coordinator has told its state: two processes, two clocks' reading.
            if known is None or known.kind in _PARTITIONS.values():
                self._partitions[name] = Box(f"partition {name}", name, kind, {})

    def _marked(self, event: events.MarkerWritten) -> bool:
        name = f"{event.topic}-{event.partition}"
        kind = "good" if event.outcome == "commit" else "split"
        self._partitions[name] = Box(f"partition {name}", name, kind, {"offset": event.offset, "epoch": event.epoch})
        return True

    def picture(self) -> Picture:
        """See `Scene`."""
        partitions = [self._partitions[name] for name in sorted(self._partitions)]
        return picture(
            (
                lane("transaction_states", self._states, transactional_id=self._id),
                lane("markers", partitions),
            )
        )
