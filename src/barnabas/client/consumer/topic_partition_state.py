"""The state of one assigned partition."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from barnabas.client.consumer.offsets import FetchPosition
from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from barnabas.client.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy

INITIALIZING: Final = 0
FETCHING: Final = 1
AWAIT_RESET: Final = 2
AWAIT_VALIDATION: Final = 3

# A partition whose offset is being reset has no position that could be validated.
_TRANSITIONS: Final = (
    frozenset({FETCHING, AWAIT_RESET, AWAIT_VALIDATION}),
    frozenset({FETCHING, AWAIT_RESET, AWAIT_VALIDATION}),
    frozenset({FETCHING, AWAIT_RESET}),
    frozenset({FETCHING, AWAIT_RESET, AWAIT_VALIDATION}),
)
_REQUIRES_POSITION: Final = (False, True, False, True)


_seeks = count(1)


class TopicPartitionState:
    """What `SubscriptionState` knows of one assigned partition.

    INITIALIZING: no position yet. FETCHING: valid position. AWAIT_RESET: the position is being looked up by
    `reset_strategy`. AWAIT_VALIDATION: there is a position, but the leader changed and has to confirm it (KIP-320).
    """

    __slots__ = (
        "end_offset_requested",
        "fetch_state",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "next_retry_at",
        "paused",
        "pending_revocation",
        "position",
        "reset_strategy",
        "seek_id",
    )

    def __init__(self) -> None:
        self.fetch_state = INITIALIZING
        self.position: FetchPosition | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.paused = False
        self.pending_revocation = False
        self.reset_strategy: AutoOffsetResetStrategy | None = None
        self.next_retry_at = 0.0
        self.end_offset_requested = False
        self.seek_id = next(_seeks)

    def transition(
        self, state: int, position: FetchPosition | None, reset_strategy: AutoOffsetResetStrategy | None = None
    ) -> bool:
        """Move to `state` with `position`; False, and nothing changes, when the present state does not allow it."""
        if state not in _TRANSITIONS[self.fetch_state]:
            return False
        if _REQUIRES_POSITION[state] and position is None:
            raise IllegalStateError("A partition cannot be fetched or validated without a position")
        if position is None or self.position is None or position.offset != self.position.offset:
            self.seek_id = next(_seeks)
        self.fetch_state = state
        self.position = position if _REQUIRES_POSITION[state] else None
        self.next_retry_at = 0.0
        if state == FETCHING:
            self.reset_strategy = None
        elif state == AWAIT_RESET:
            self.reset_strategy = reset_strategy
        return True

    def repair(self) -> None:
        """Look everything up anew that an exception between two lines of `transition` may have left half changed."""
        self.next_retry_at = 0.0
        if _REQUIRES_POSITION[self.fetch_state]:
            is_whole = self.position is not None
        else:
            is_whole = self.fetch_state != AWAIT_RESET or self.reset_strategy is not None
        if not is_whole:
            self.fetch_state = INITIALIZING
            self.seek_id = next(_seeks)

    def validate(self, position: FetchPosition) -> bool:
        """Take `position`, and have the leader confirm it where both epochs are known."""
        needed = position.offset_epoch >= 0 and position.current_leader.epoch >= 0
        return self.transition(AWAIT_VALIDATION if needed else FETCHING, position)

    @property
    def is_fetchable(self) -> bool:
        """Whether data may be asked for and handed out."""
        return self.fetch_state == FETCHING and not self.paused and not self.pending_revocation
