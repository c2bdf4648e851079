"""Which state may follow which (KIP-98, KIP-890)."""

from __future__ import annotations

import pytest

from barnabas.broker.transactions import transaction_state as states
from barnabas.errors import IllegalStateError

#: From → to. Everything else is a fault in the coordinator.
ALLOWED = {
    "Empty": {"Empty", "Ongoing", "PrepareAbort", "Dead"},
    "Ongoing": {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"},
    "PrepareCommit": {"CompleteCommit"},
    "PrepareAbort": {"CompleteAbort"},
    "CompleteCommit": {"Empty", "Ongoing", "PrepareAbort", "Dead"},
    "CompleteAbort": {"Empty", "Ongoing", "PrepareAbort", "Dead"},
    "Dead": set(),
    "PrepareEpochFence": {"PrepareAbort"},
}


@pytest.mark.parametrize("old", ALLOWED)
@pytest.mark.parametrize("new", ALLOWED)
def test_transitions(old: str, new: str) -> None:
    def transition() -> None:
        states.check_transition("id", states.BY_NAME[old], states.BY_NAME[new])

    if new in ALLOWED[old]:
        transition()
    else:
        with pytest.raises(IllegalStateError, match=f"from {old} to {new}"):
            transition()


def test_the_numbers_in_the_log_are_kafkas() -> None:
    assert [states.NAMES[number] for number in range(8)] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip
