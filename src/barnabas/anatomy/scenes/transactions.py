"""Transactions: every transactional id of a coordinator as a state machine."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_KINDS = {"CompleteCommit": "good", "CompleteAbort": "split", "Empty": "waiting", "Ongoing": "open", "Dead": "bad"}


class TransactionScene:
    """One transactional id."""

    def __init__(self, subject: str) -> None:
        self._id = subject
        self._states: deque[Box] = deque(maxlen=LAST)
        self._changes = 0

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the transactional id."""
        return event.transactional_id if isinstance(event, events.TransactionState) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if not isinstance(event, events.TransactionState) or event.transactional_id != self._id:
            return False
        self._changes += 1
        facts: dict[str, str | int | float] = {
            "producer_id": event.producer_id,
            "epoch": event.epoch,
            "partitions": event.partitions,
        }
        self._states.append(Box(f"state {self._changes}", event.state, _KINDS.get(event.state, "moving"), facts))
        return True

    def picture(self) -> Picture:
        """See `Scene`."""
        return picture((lane("transaction_states", self._states, transactional_id=self._id),))
