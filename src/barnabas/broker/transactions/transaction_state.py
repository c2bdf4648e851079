"""The states of a transactional id, and which may follow which (TransactionState)."""

from __future__ import annotations

from barnabas.errors import IllegalStateError

EMPTY = 0
ONGOING = 1
PREPARE_COMMIT = 2
PREPARE_ABORT = 3
COMPLETE_COMMIT = 4
COMPLETE_ABORT = 5
DEAD = 6
PREPARE_EPOCH_FENCE = 7

#: As ListTransactions and DescribeTransactions show them.
NAMES = {
    EMPTY: "Empty",
    ONGOING: "Ongoing",
    PREPARE_COMMIT: "PrepareCommit",
    PREPARE_ABORT: "PrepareAbort",
    COMPLETE_COMMIT: "CompleteCommit",
    COMPLETE_ABORT: "CompleteAbort",
    DEAD: "Dead",
    PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
BY_NAME = {name: state for state, name in NAMES.items()}

#: Nothing is open: the id can begin a transaction, be given to another producer, or expire.
RESTING = frozenset((EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT))
#: The result is decided and in the log; markers remain to be written.
PREPARED = frozenset((PREPARE_COMMIT, PREPARE_ABORT))

#: State → the states it may follow. PREPARE_ABORT follows the resting ones since KIP-890: a client that does not know
#: whether its transaction has begun may abort it.
VALID_PREVIOUS: dict[int, frozenset[int]] = {
    EMPTY: RESTING,
    ONGOING: RESTING | {ONGOING},
    PREPARE_COMMIT: frozenset((ONGOING,)),
    PREPARE_ABORT: RESTING | {ONGOING, PREPARE_EPOCH_FENCE},
    COMPLETE_COMMIT: frozenset((PREPARE_COMMIT,)),
    COMPLETE_ABORT: frozenset((PREPARE_ABORT,)),
    DEAD: RESTING,
    PREPARE_EPOCH_FENCE: frozenset((ONGOING,)),
}


def check_transition(transactional_id: str, old: int, new: int) -> None:
    """Raise IllegalStateError unless `new` may follow `old`."""
    if old not in VALID_PREVIOUS[new]:
        raise IllegalStateError(f"transactional id {transactional_id!r} cannot go from {NAMES[old]} to {NAMES[new]}")
