"""Records of the decision log, and the transactional ids that a process may use again."""

from __future__ import annotations

import pytest

from barnabas.spark.exactly_once.decision import LOST, Decision, DecisionError, TaskTransaction
from barnabas.spark.exactly_once.id_pool import LAST_EPOCH_TO_RESUME, LONGEST_REST, IdPool, Initialize, Resume

TASK = TaskTransaction(3, "sink-q-task-w-0", 17, 4, 100, {"rows": [0, 2]})


def used_in_batch_5(epoch: int = 4) -> IdPool:
    pool = IdPool("sink-q", "w")
    assert pool.take(5, None, 0.0) == Initialize("sink-q-task-w-0")
    pool.used("sink-q-task-w-0", 17, epoch, 0.0)
    return pool


def test_a_decision_reads_as_it_was_written() -> None:
    decision = Decision(5, "r1", LOST, (TASK,), (3,))

    assert Decision.decode(decision.encode()) == decision


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"format":2}', b'{"format":1,"state":"perhaps"}', b"\xff"])
def test_a_record_of_another_kind_is_not_taken_for_a_decision(value: bytes) -> None:
    with pytest.raises(DecisionError, match="cannot be read"):
        Decision.decode(value)


def test_an_id_whose_transaction_was_committed_goes_on_with_the_next_epoch() -> None:
    assert used_in_batch_5().take(6, Decision(5, "r1", tasks=(TASK,)), 1.0) == Resume("sink-q-task-w-0", 17, 5)


@pytest.mark.parametrize(
    ("batch", "decision"),
    [(5, Decision(4, "r1")), (6, Decision(4, "r1")), (6, None), (5, Decision(5, "r1", tasks=(TASK,)))],
    ids=["same batch again", "decision not seen yet", "no decision", "being rewritten"],
)
def test_an_id_that_may_still_be_decided_on_is_left_alone(batch: int, decision: Decision | None) -> None:
    assert used_in_batch_5().take(batch, decision, 1.0) == Initialize("sink-q-task-w-1")


@pytest.mark.parametrize(
    ("epoch", "decision", "now"),
    [
        (4, Decision(5, "r1"), 1.0),
        (4, Decision(6, "r1"), 1.0),
        (4, Decision(5, "r1", LOST, (TASK,), (3,)), 1.0),
        (4, Decision(5, "r1", tasks=(TASK,)), LONGEST_REST + 1),
        (LAST_EPOCH_TO_RESUME, Decision(5, "r1", tasks=(TASK._replace(epoch=LAST_EPOCH_TO_RESUME),)), 1.0),
    ],
    ids=["not named", "a later decision", "lost", "rested for long", "epochs run out"],
)
def test_an_id_whose_epoch_is_not_certain_is_initialized(epoch: int, decision: Decision, now: float) -> None:
    assert used_in_batch_5(epoch).take(7, decision, now) == Initialize("sink-q-task-w-0")
