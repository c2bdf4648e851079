"""Records of the decision log, and the transactional ids that a process may use again."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.spark.exactly_once.decision import (
    COMPLETE,
    DECIDED,
    LOST,
    REWRITE,
    Decision,
    DecisionError,
    Identity,
    TaskState,
    TaskTransaction,
)
from barnabas.spark.exactly_once.transactional_id_pool import (
    LAST_EPOCH_TO_RESUME,
    LONGEST_REST,
    IdPool,
    Initialize,
    Resume,
)

TASK = TaskTransaction(3, "sink-q-task-w-0", 17, 4, 100, {"rows": [0, 2]})


def used_in_batch_5(epoch: int = 4) -> IdPool:
    pool = IdPool("sink-q", "w")
    assert pool.take(5, None, 0.0) == Initialize("sink-q-task-w-0")
    pool.used(5, "sink-q-task-w-0", 17, epoch, 0.0)
    return pool


def test_a_decision_reads_as_it_was_written() -> None:
    decision = Decision(5, "r1", LOST, (TASK,), (3,), strangers=(Identity("sink-q-task-w-7", 18, 2),))

    assert Decision.decode(decision.encode()) == decision
    assert Decision.decode(decision.encode()).strangers[0].producer_id == 18


def test_a_decision_without_states_and_strangers_is_what_older_versions_read() -> None:
    assert set(json.loads(Decision(5, "r1").encode())) == {"format", "batch", "run", "state", "tasks", "lost"}


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"format":2}', b'{"format":1,"state":"perhaps"}', b"\xff"])
def test_a_record_of_another_kind_is_not_taken_for_a_decision(value: bytes) -> None:
    with pytest.raises(DecisionError, match="cannot be read"):
        Decision.decode(value)


def test_an_id_whose_transaction_was_committed_goes_on_with_the_next_epoch() -> None:
    assert used_in_batch_5().take(6, Decision(5, "r1", COMPLETE, (TASK,)), 1.0) == Resume("sink-q-task-w-0", 17, 5)


@pytest.mark.parametrize(
    ("batch", "decision"),
    [
        (5, Decision(4, "r1", COMPLETE)),
        (6, Decision(4, "r1", COMPLETE)),
        (6, None),
        (5, Decision(5, "r1", REWRITE, (TASK,))),
        (6, Decision(5, "r1", DECIDED, (TASK,))),
    ],
    ids=["same batch again", "decision not seen yet", "no decision", "being rewritten", "perhaps not ended yet"],
)
def test_an_id_whose_transaction_a_driver_may_still_end_is_left_alone(batch: int, decision: Decision | None) -> None:
    assert used_in_batch_5().take(batch, decision, 1.0) == Initialize("sink-q-task-w-1")


@pytest.mark.parametrize(
    ("epoch", "decision", "now"),
    [
        (4, Decision(5, "r1", COMPLETE), 1.0),
        (4, Decision(6, "r1"), 1.0),
        (4, Decision(5, "r1", COMPLETE, (TASK,), (3,)), 1.0),
        (4, Decision(5, "r1", COMPLETE, (TASK,)), LONGEST_REST + 1),
        (LAST_EPOCH_TO_RESUME, Decision(5, "r1", COMPLETE, (TASK._replace(epoch=LAST_EPOCH_TO_RESUME),)), 1.0),
    ],
    ids=["not named", "a later decision", "lost", "rested for long", "epochs run out"],
)
def test_an_id_whose_epoch_is_not_certain_is_initialized(epoch: int, decision: Decision, now: float) -> None:
    assert used_in_batch_5(epoch).take(7, decision, now) == Initialize("sink-q-task-w-0")


def test_an_attempt_that_failed_leaves_its_id_to_the_next_one() -> None:
    pool = used_in_batch_5()

    pool.failed("sink-q-task-w-0")

    assert pool.take(5, None, 1.0) == Initialize("sink-q-task-w-0")
    assert len(pool) == 1


class Attempt(NamedTuple):
    """What happens to an attempt of the present batch, and whether the batch is then decided and seen to be."""

    fails: bool
    is_named: bool
    decides: bool
    is_seen: bool
    is_marked: bool


@given(st.lists(st.builds(Attempt, *[st.booleans()] * 5), max_size=60))
def test_there_are_as_many_ids_as_attempts_between_two_decisions_and_no_undecided_one_is_given_away(
    attempts: list[Attempt],
) -> None:
    pool, batch, log, seen = IdPool("sink-q", "w"), 0, None, None
    undecided: dict[str, int] = {}
    most = 0
    for number, attempt in enumerate(attempts):
        chosen = pool.take(batch, seen, 0.0)
        assert chosen.transactional_id not in undecided
        pool.used(batch, chosen.transactional_id, 1, number, 0.0)
        most = max(most, len(undecided) + 1)
        if attempt.fails:
            pool.failed(chosen.transactional_id)
        else:
            undecided[chosen.transactional_id] = batch
        if attempt.decides:
            task = TASK._replace(transactional_id=chosen.transactional_id, producer_id=1, epoch=number)
            state = COMPLETE if attempt.is_marked else DECIDED
            log = Decision(batch, "r", state, (task,) if attempt.is_named and not attempt.fails else ())
            batch += 1
        if attempt.is_seen and log is not None:
            seen = log
            finished = log.batch if log.state == COMPLETE else log.batch - 1
            undecided = {name: used for name, used in undecided.items() if used > finished}

    assert len(pool) == most


def state(task: str, note: str, **ends: int) -> TaskState:
    return TaskState(task, note, {topic: {"0": offset} for topic, offset in ends.items()})


def test_a_decision_tells_what_each_task_has_left_by_its_end() -> None:
    tasks = (TASK._replace(state=state("0_1", "new", a=9)), TASK._replace(partition=4, state=state("0_2", "lost")))
    before = (state("0_1", "old", a=5, b=7), state("0_2", "kept"), state("1_0", "rests"))
    decision = Decision(5, "r1", LOST, tasks, (4,), before)

    read = Decision.decode(decision.encode())

    assert read == decision
    assert read.states_after() == {
        "0_1": state("0_1", "new", a=9, b=7), "0_2": state("0_2", "kept"), "1_0": state("1_0", "rests"),
    }  # fmt: skip


def test_a_query_without_states_writes_what_versions_before_states_read() -> None:
    written = json.loads(Decision(5, "r1", LOST, (TASK,), (3,)).encode())

    assert (sorted(written), len(written["tasks"][0])) == (["batch", "format", "lost", "run", "state", "tasks"], 6)
