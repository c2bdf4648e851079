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
    open_now: dict[str, int] = yield ListOpen()
    strangers = yield from identified(set(open_now))
    for at in range(0, len(strangers), MOST_STRANGERS):
        some = strangers[at : at + MOST_STRANGERS]
        decision = (decision or Decision(_NONE, RUN, COMPLETE))._replace(strangers=some)
        yield Record(decision)
        yield EndAll(some, commit=False)
    return None if decision is None or decision.batch == _NONE else decision
