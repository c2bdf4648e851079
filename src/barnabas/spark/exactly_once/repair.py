"""What a person may do about a query whose batch lost rows, as steps of the protocol."""

from __future__ import annotations

from barnabas.spark.exactly_once.commit_protocol import (
    MOST_STRANGERS,
    EndAll,
    ListOpen,
    Record,
    SinkSteps,
    TakeOver,
    finish,
    identified,
)
from barnabas.spark.exactly_once.decision import COMPLETE, LOST, REWRITE, Decision, DecisionError, TransactionsLostError

#: What can be chosen about lost rows: leave them lost, or have their tasks write them when the query starts again.
ACCEPT_LOSS, REWRITE_LOST = "accept-loss", "rewrite-lost"
_STATE_AFTER = {ACCEPT_LOSS: COMPLETE, REWRITE_LOST: REWRITE}

#: The batch of a query that has decided none.
_NONE = -1

#: The name under which repairs take over from a driver.
RUN = "repair"


def repair(query: str, choice: str | None) -> SinkSteps:
    """Commit what was decided and can be committed, settle what was lost as `choice` says, abort the rest.

    Fences the query's driver: one that still runs fails. Returns the decision as it is then, None without any. Raises
    DecisionError for a choice where nothing is lost.

    What is to be aborted is among the decision's strangers first. So a driver that has not heard of this one, and is at
    its first batch, either decides it before that, and then nothing of it is aborted here, or finds it there.
    """
    decision: Decision | None = yield TakeOver(RUN)
    if decision is not None:
        try:
            decision = yield from finish(decision, query)
        except TransactionsLostError as lost:
            decision = lost.decision
    if choice is not None:
        if decision is None or decision.state != LOST:
            raise DecisionError(f"query {query} has lost no rows that {choice} could concern")
        decision = decision._replace(state=_STATE_AFTER[choice])
        yield Record(decision)
    return (yield from _abort_all_but(decision, frozenset()))


def sweep(run: str) -> SinkSteps:
    """Return what a driver does before the first tasks of its run begin, where these wait for what is stable.

    Aborts what is open and not decided: no other driver will decide on it any more. Returns the last decision, or None.
    """
    decision: Decision | None = yield TakeOver(run)
    is_done = decision is None or decision.state == COMPLETE  # its ids may be in use for the next batch since
    tasks = () if decision is None or is_done else decision.tasks
    return (yield from _abort_all_but(decision, frozenset(task.transactional_id for task in tasks)))


def _abort_all_but(decision: Decision | None, kept: frozenset[str]) -> SinkSteps:
    """Abort what is open, once the log has it among the strangers that no decision may name any more."""
    open_now: dict[str, int] = yield ListOpen()
    strangers = yield from identified(set(open_now) - kept)
    for at in range(0, len(strangers), MOST_STRANGERS):
        some = strangers[at : at + MOST_STRANGERS]
        decision = (decision or Decision(_NONE, RUN, COMPLETE))._replace(strangers=some)
        yield Record(decision)
        yield EndAll(some, commit=False)
    return None if decision is None or decision.batch == _NONE else decision
