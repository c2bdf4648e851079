"""When a task may compute, and from which state: exactly once for state, changelog and output, as a state machine.

A generator as those of `barnabas.spark.exactly_once.commit_protocol`: it yields what is to be done, one step at a time,
and is given what came of it. Nothing here reads a clock, a socket or randomness.

A task computes batch n from the state after the last decided batch before n, and from no other. What a process holds of
a task is that state only if the decision log says so: each computation leaves a note, which no other one leaves, the
note travels to the sink among the rows, and the decision on the batch names it. State that another note names, or that
was left in the middle of a record, is thrown away and restored from the changelog topics, read committed up to the
offsets that the decision holds. So user code that is not deterministic cannot make the state differ from what was
written: what was computed twice has two notes, and one of them counts. A batch that is decided is not computed again.
Where the topology has changed since, `moved_states` says which states a task goes on from.

What a machine keeps of a task on its disk is always the state after a decided batch, with the offsets up to which it
has the changelogs: it is kept when the next batch finds it decided, or when the driver that decided it closes the
application and says so (`end_task`), never before. So wherever a process dies, and however old what it left is, a task
goes on from there by reading the changelogs from these offsets on.

The caller that takes these steps holds the task for itself: two attempts in one process must not share its stores.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from barnabas.spark.exactly_once.decision import LOST, REWRITE, Decision, DecisionError, TaskState
from barnabas.streams.spark.moved_states import TaskShape, state_of


class ReadDecision(NamedTuple):
    """Read the query's last decision; gives a Decision or None.

    Unless that is on batch `least` or a later one, read up to the very end of the log as it is now: the batch before
    this one was decided before this one began, and its state is the one that counts. Where it is known there is nothing
    to wait for. A decision on this very batch that is missed does no harm: the sink finds it, and what was computed is
    of no note.
    """

    least: int


class Restore(NamedTuple):
    """Bring the stores from what was kept last to this state, and take up the times that its note tells.

    What came after it is forgotten, then the changelogs are read on, read committed; from their beginning where nothing
    is kept, where a topic was made anew, and where one has lost what would come next, or ends before. A changelog is
    read past the offset that `state` holds for it, however long that takes to become stable. One of which it holds
    none, because this query has not written to it, is read up to what is stable now: another application may have.
    """

    state: TaskState | None


class Keep(NamedTuple):
    """The stores stand after this decided state (None: no decision knows of one): they may be kept as they are now."""

    state: TaskState | None


class Compute(NamedTuple):
    """Compute the batch; gives the note that the task leaves, once all rows and the note were handed on."""


class HeldTask:
    """What a process holds of a task: after which note its stores stand, None when that is not certain."""

    def __init__(self) -> None:
        self.note: str | None = None


class TaskBatch(NamedTuple):
    """Which task is to compute which batch; `partition` is Spark's number of it in the batch.

    Without a `shape` a task's state is the one of its name.
    """

    name: str
    batch: int
    partition: int
    shape: TaskShape | None = None


Steps = Generator[Any, Any, bool]


def run_task(task: TaskBatch, held: HeldTask) -> Steps:
    """Compute a batch unless it is decided; returns whether it was computed. Raises DecisionError out of order."""
    decision: Decision | None = yield ReadDecision(task.batch - 1)
    if decision is not None:
        _check_order(task.batch, decision)
        if decision.batch == task.batch and not _is_to_be_rewritten(task, decision):
            return False
    before = state_before(task, decision)
    if held.note is None or before is None or held.note != before.note:
        held.note = None
        yield Restore(before)
    yield Keep(before)
    held.note = None  # until all of the batch is done
    held.note = yield Compute()
    return True


def end_task(held: HeldTask, decided: TaskState | None) -> Steps:
    """Keep what is held of a task that is closed; returns whether it was kept.

    `decided` is the task's state by the last decision of the driver that closes it, None if it knows of none. Where
    that is the state that is held it is one after a decided batch, even if other drivers have decided more since.
    """
    note, held.note = held.note, None
    if note is None or decided is None or decided.note != note:
        return False
    yield Keep(decided)
    return True


def state_before(task: TaskBatch, decision: Decision | None) -> TaskState | None:
    """Return what the task has left before this batch, None if no decision knows of it."""
    if decision is None:
        return None
    is_before = decision.batch < task.batch
    states = decision.states_after() if is_before else {state.task: state for state in decision.states}
    return states.get(task.name) if task.shape is None else state_of(task.name, task.shape, states)


def _is_to_be_rewritten(task: TaskBatch, decision: Decision) -> bool:
    return decision.state == REWRITE and task.partition in decision.lost


def _check_order(batch: int, decision: Decision) -> None:
    if decision.batch > batch:
        raise DecisionError(
            f"batch {batch} is to be computed, but batch {decision.batch} was committed already: either another run of "
            "the application is ahead of this one, or its checkpoint was set back"
        )
    if decision.batch < batch and decision.state in (LOST, REWRITE):
        raise DecisionError(
            f"batch {batch} is to be computed, but batch {decision.batch} before it has lost rows that nobody has "
            "decided about: see `barnabas spark repair`"
        )
