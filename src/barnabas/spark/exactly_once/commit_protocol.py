"""The protocol of the exactly-once sink as state machines: what a task does, what the driver does, step by step.

Each is a generator. It yields what is to be done to the cluster, one step at a time, and is given what came of it; so a
crash is a generator that is not continued, and a test can put one between any two steps. Nothing here reads a clock or
a socket. `docs/guide/exactly-once.md` has the reasons and the table of failures.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Protocol

from barnabas.spark.exactly_once.decision import (
    COMPLETE,
    DECIDED,
    LOST,
    REWRITE,
    Decision,
    DecisionError,
    Identity,
    TaskTransaction,
    TransactionsLostError,
)
from barnabas.spark.exactly_once.transactional_id_pool import IdPool, Resume

# What a task asks of the cluster.


class ReadDecision(NamedTuple):
    """Read the query's last decision; gives a Decision or None."""


class InitProducerId(NamedTuple):
    """Get a new epoch for a transactional id, which aborts what was open under it; gives (producer id, epoch)."""

    transactional_id: str


class WriteRows(NamedTuple):
    """Write all rows of the task in a transaction of this identity, and leave it open.

    Gives (rows, topics), and of a task with a state of its own a TaskState as the third. None says that rows could not
    be written and are left out from now on: the others must be written in another transaction.
    """

    transactional_id: str
    producer_id: int
    epoch: int


# What the driver asks of the cluster.


class TakeOver(NamedTuple):
    """Fence any other driver of the query, unless this one has; then read the last decision; Decision or None."""

    run: str


class ListOpen(NamedTuple):
    """List the query's open transactions, or those of one of its runs; gives {transactional id: producer id}."""

    run: str = ""


class Describe(NamedTuple):
    """Look at open transactions; gives {transactional id: (producer id, epoch)} for those still open."""

    transactional_ids: tuple[str, ...]


class Record(NamedTuple):
    """Put a decision into the log, durably; fails if another driver has taken over."""

    decision: Decision


class EndAll(NamedTuple):
    """Commit or abort transactions; gives the ids of those for which the cluster says for good that it did not."""

    transactions: tuple[Identity, ...]
    commit: bool


class TaskReport(NamedTuple):
    """What a task tells the driver; `transaction` is None when it wrote nothing, `was_decided` says why."""

    query: str
    run: str
    batch: int
    partition: int
    transaction: TaskTransaction | None = None
    was_decided: bool = False


class Task(NamedTuple):
    """Which task of which batch of which run of which query."""

    query: str
    run: str
    batch: int
    partition: int


SinkSteps = Generator[Any, Any, Any]

#: So many strangers a decision's record holds, for the cluster bounds its size. Where the driver dies that was to abort
#: them, the one after it aborts these, and all others with its next batch.
MOST_STRANGERS = 1000


class StepPerformer(Protocol):
    """Who does what the steps say."""

    def perform(self, step: Any) -> Any:
        """Do it; returns what came of it, or raises what kept it from being done."""


def take_steps(steps: SinkSteps, performer: StepPerformer) -> Any:
    """Take all steps; returns what they return. Raises what they or the performer raise."""
    try:
        step = next(steps)
        while True:
            step = steps.send(performer.perform(step))
    except StopIteration as ended:
        return ended.value
    finally:
        steps.close()


def write_task(task: Task, pool: IdPool, now: float) -> SinkSteps:
    """Return a task that has rows: returns its TaskReport. `pool` is that of its Python process; `now` in seconds."""
    report = TaskReport(*task)
    decision: Decision | None = yield ReadDecision()
    _check_order(task.batch, decision)
    if decision is not None and decision.batch == task.batch:
        is_mine_to_write = decision.state == REWRITE and task.partition in decision.lost
        if not is_mine_to_write:
            return report._replace(was_decided=True)
    written: tuple[int, dict[str, list[int]], *tuple[Any, ...]] | None = None
    while written is None:
        identity: tuple[str, int, int] = yield from _identity(task.batch, pool, decision, now)
        try:
            written = yield WriteRows(*identity)
        finally:
            if written is None:
                pool.failed(identity[0])
    rows, topics, *state = written
    if not rows:
        # The cluster knows no transaction without a record, so there is none to be ended, and its id is free.
        pool.failed(identity[0])
        identity = "", -1, -1
    return report._replace(transaction=TaskTransaction(task.partition, *identity, rows, topics, *state))


def _identity(batch: int, pool: IdPool, decision: Decision | None, now: float) -> SinkSteps:
    """Return an identity for a transaction of a task: transactional id, producer id and epoch."""
    chosen = pool.take(batch, decision, now)
    if isinstance(chosen, Resume):
        identity = chosen.transactional_id, chosen.producer_id, chosen.epoch
    else:
        producer_id, epoch = yield InitProducerId(chosen.transactional_id)
        identity = chosen.transactional_id, producer_id, epoch
    pool.used(batch, *identity, now)
    return identity


def take_over(run: str) -> SinkSteps:
    """Return what a driver does before the first tasks of its run begin, where it can: be the query's only one.

    No other one decides any more, so these tasks know the decision that counts. Spark asks a sink for nothing so early.
    Returns the decision, or None.
    """
    decision: Decision | None = yield TakeOver(run)
    return decision


def commit_batch(batch: int, reports: Sequence[TaskReport]) -> SinkSteps:
    """Return the driver's `commit`: every task has reported. Returns the decision as it is at the end, or None."""
    if not reports:
        return None
    written = [report.transaction for report in reports if report.transaction is not None]
    decision: Decision | None = yield TakeOver(reports[0].run)
    try:
        _check_order(batch, decision)
    except DecisionError:
        yield EndAll(_identities(written), commit=False)
        raise
    if decision is not None and decision.batch == batch and decision.state != REWRITE:
        # Another driver decided it after these tasks had looked.
        if written:
            yield EndAll(_identities(written), commit=False)
        return (yield from _finish_and_abort_strangers(decision, reports[0].query))
    is_rewrite = decision is not None and decision.batch == batch
    if any(report.was_decided for report in reports) and not is_rewrite:
        yield EndAll(_identities(written), commit=False)
        raise DecisionError(
            f"tasks of batch {batch} found it decided, but this driver does not know its decision: another run of the "
            "query has taken over, or the decision log has lost records"
        )
    if not written and not is_rewrite:
        return decision
    strangers = yield from _strangers(batch, written, () if decision is None else decision.strangers)
    states = () if decision is None else tuple(decision.states_after().values())
    kept = strangers[:MOST_STRANGERS]
    decided = Decision(batch, reports[0].run, DECIDED, tuple(written), states=states, strangers=kept)
    yield Record(decided)
    done = yield from finish(decided, reports[0].query)
    if strangers:
        yield EndAll(strangers, commit=False)
    return done


def _strangers(batch: int, written: list[TaskTransaction], aborted: Sequence[Identity]) -> SinkSteps:
    """Return the query's open transactions that the decision will not name, as they are before it.

    Before a batch is decided all else that is open belongs to it or to earlier ones, so once it is decided none needs
    them. That would not hold of a list made later: another driver may by then have begun the next batch. `aborted` are
    those that the decision before has among its strangers: they are aborted, or will be.
    """
    open_now: dict[str, int] = yield ListOpen()
    tasks = [task for task in written if task.transactional_id]
    missing = {task.transactional_id for task in tasks if open_now.get(task.transactional_id) != task.producer_id}
    # The list may be short of some where the user is not allowed to see that coordinators move.
    still_open: tuple[Identity, ...] = yield from identified(missing)
    gone = [
        task
        for task in tasks
        if task.identity in aborted or (task.transactional_id in missing and task.identity not in still_open)
    ]
    if gone:
        yield EndAll(_identities(written), commit=False)
        raise DecisionError(
            f"batch {batch} was not committed and will be written again: the cluster aborted transactions of its tasks "
            "before all were done; if that was transaction.timeout.ms, raise kafka.transaction.timeout.ms. "
            + "; ".join(map(str, gone))
        )
    return (yield from identified(set(open_now) - {task.transactional_id for task in tasks}))


def _finish_and_abort_strangers(decision: Decision, query: str) -> SinkSteps:
    """Finish what another driver decided, and abort what it had found open before: it may have died before it did.

    Until that is aborted, no reader of committed records gets past it, and a task may be such a reader: one that
    restores its state. What is open now and was not then is left alone, for another driver may have begun the next
    batch. No such reader needs to get past it, for it begins after all that was decided.
    """
    done: Decision = yield from finish(decision, query)
    if done.strangers:
        yield EndAll(done.strangers, commit=False)
    return done


def identified(names: set[str]) -> SinkSteps:
    """Return which of the query's open transactions these are, those that are still open."""
    others = tuple(sorted(names))
    if not others:
        return ()
    found: dict[str, tuple[int, int]] = yield Describe(others)
    return tuple(Identity(name, *identity) for name, identity in sorted(found.items()))


def finish(decision: Decision, query: str) -> SinkSteps:
    """Make true what was decided, however often; returns the decision as it is then. Raises TransactionsLostError."""
    if decision.state == COMPLETE:
        return decision
    if decision.state == DECIDED:
        named = _identities(decision.tasks)
        failed: set[str] = (yield EndAll(named, commit=True)) if named else set()
        lost = tuple(task.partition for task in decision.tasks if task.transactional_id in failed)
        decision = decision._replace(state=LOST if lost else COMPLETE, lost=lost)
        yield Record(decision)
    if decision.state == LOST:
        raise TransactionsLostError(decision, query)
    return decision


def abort_batch(reports: Sequence[TaskReport | None]) -> SinkSteps:
    """Return the driver's `abort`.

    After a task failed `commit` was not called, so no driver can have decided these transactions. When all tasks have
    reported, it was called and failed, maybe after the decision: the next start knows, or the next batch.
    """
    if all(report is not None for report in reports):
        return
    written = [report.transaction for report in reports if report is not None and report.transaction is not None]
    if written:
        yield EndAll(_identities(written), commit=False)


def abort_run(run: str) -> SinkSteps:
    """Return what the driver does after a task failed, where what the others reported is lost with it.

    A run decides on a batch when it has finished those before, and no other run decides on what its tasks have written:
    all that is open of it is of the batch that failed.
    """
    open_now: dict[str, int] = yield ListOpen(run)
    strangers = yield from identified(set(open_now))
    if strangers:
        yield EndAll(strangers, commit=False)


def _check_order(batch: int, decision: Decision | None) -> None:
    if decision is None:
        return
    if decision.batch > batch:
        raise DecisionError(
            f"batch {batch} is to be written, but batch {decision.batch} of this query was committed already: either "
            "another run of the query is ahead of this one, or its checkpoint was set back; to start over use a new "
            "checkpoint, which makes a new query"
        )
    if decision.batch < batch and decision.state in (LOST, REWRITE):
        raise DecisionError(
            f"batch {batch} is to be written, but batch {decision.batch} before it has lost rows that nobody has "
            "decided about: see `barnabas spark repair`"
        )


def _identities(tasks: Sequence[TaskTransaction]) -> tuple[Identity, ...]:
    return tuple(task.identity for task in tasks if task.transactional_id)
