"""What the decision log holds: for a query, which transactions of its last batch count."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from barnabas.errors import KafkaError

#: What became of a batch. DECIDED: its transactions must be committed, by this driver or the next. COMPLETE: they are.
#: LOST: the cluster aborted some of them before that. REWRITE: a person chose to have the lost ones written again.
DECIDED, COMPLETE, LOST, REWRITE = "decided", "complete", "lost", "rewrite"
STATES = (DECIDED, COMPLETE, LOST, REWRITE)

#: The sink's options decisionTopic and transactionalIdPrefix, unless they are given.
DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX = "barnabas-spark-decisions", "barnabas-spark"

_FORMAT = 1


class DecisionError(KafkaError):
    """The decision log, or what a task reported, contradicts the batch that is being written."""


class Identity(NamedTuple):
    """One transaction: no other one, earlier or later, has all three."""

    transactional_id: str
    producer_id: int
    epoch: int


class TaskState(NamedTuple):
    """What a task with a state of its own leaves for its next batch; it counts when the task's transaction does.

    `task` is its name, which outlives a batch, `note` its own text, and `ends` the last offset that it has written, by
    topic and partition, in those topics that it asked for.
    """

    task: str
    note: str
    ends: dict[str, dict[str, int]]

    def after(self, before: TaskState | None) -> TaskState:
        """Return this state with the ends of partitions to which the task wrote earlier only."""
        ends = {} if before is None else {topic: dict(found) for topic, found in before.ends.items()}
        for topic, found in self.ends.items():
            ends.setdefault(topic, {}).update(found)
        return self._replace(ends=ends)


class TaskTransaction(NamedTuple):
    """The transaction in which a task wrote its rows; open until the driver commits it.

    `partition` is Spark's number of the task in its batch; `topics` says where the rows went.
    """

    partition: int
    transactional_id: str
    producer_id: int
    epoch: int
    rows: int
    topics: dict[str, list[int]]
    state: TaskState | None = None

    @property
    def identity(self) -> Identity:
        """Which transaction of the cluster's it is."""
        return Identity(self.transactional_id, self.producer_id, self.epoch)

    def __str__(self) -> str:
        places = ", ".join(f"{topic}[{','.join(map(str, found))}]" for topic, found in sorted(self.topics.items()))
        return f"task {self.partition}: {self.rows} rows in {places} (transactional id {self.transactional_id})"


class Decision(NamedTuple):
    """The last batch of a query that was decided, by which run of the query, and in which transactions it is.

    `lost` are the tasks (by `partition`) whose rows are not in the topics, in states LOST and REWRITE, and in COMPLETE
    when that was accepted. `states` are what the tasks had left before this batch. `strangers` are transactions that
    were open before the decision and that no decision may name any more: a driver that reads this may abort them.
    """

    batch: int
    run: str
    state: str = DECIDED
    tasks: tuple[TaskTransaction, ...] = ()
    lost: tuple[int, ...] = ()
    states: tuple[TaskState, ...] = ()
    strangers: tuple[Identity, ...] = ()

    def names(self, transactional_id: str) -> TaskTransaction | None:
        """Return the task's transaction under this id, if it counts."""
        return next((task for task in self.tasks if task.transactional_id == transactional_id), None)

    def states_after(self) -> dict[str, TaskState]:
        """Return what each task has left by the end of this batch, by its name."""
        found = {state.task: state for state in self.states}
        for task in self.tasks:
            if task.state is not None and task.partition not in self.lost:
                found[task.state.task] = task.state.after(found.get(task.state.task))
        return found

    def completed(self) -> Decision | None:
        """Return this decision, marked as done; None unless that is all that is left to be said of it."""
        return self._replace(state=COMPLETE) if self.state == DECIDED else None

    def encode(self) -> bytes:
        """Return the record's value. What queries without states and strangers write, older versions read."""
        tasks = [list(task if task.state is not None else task[:-1]) for task in self.tasks]
        content = {"format": _FORMAT, **self._asdict(), "tasks": tasks}
        for name in ("states", "strangers"):
            if not content[name]:
                del content[name]
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Decision:
        """Raise DecisionError for what this version does not understand."""
        try:
            content = json.loads(value)
            if content.pop("format") != _FORMAT or content["state"] not in STATES:
                raise ValueError("another format")
            tasks = tuple(_task_transaction(*task) for task in content.pop("tasks"))
            states = tuple(TaskState(*state) for state in content.pop("states", ()))
            strangers = tuple(Identity(*stranger) for stranger in content.pop("strangers", ()))
            return cls(**content | {"lost": tuple(content["lost"])}, tasks=tasks, states=states, strangers=strangers)
        except (ValueError, TypeError, KeyError) as error:
            raise DecisionError(
                f"a record of the decision log cannot be read ({error}): {value[:200]!r}; was it written by a newer "
                "barnabas?"
            ) from error


def _task_transaction(*fields: Any) -> TaskTransaction:
    task = TaskTransaction(*fields)
    return task if task.state is None else task._replace(state=TaskState(*task.state))


class TransactionsLostError(KafkaError):
    """A batch was decided, and then not all of its transactions could be committed: some rows are lost."""

    def __init__(self, decision: Decision, query: str) -> None:
        """`query` is the id of the streaming query."""
        lost = [task for task in decision.tasks if task.partition in decision.lost]
        kept = [task for task in decision.tasks if task.partition not in decision.lost]
        lines = [
            f"Batch {decision.batch} was decided, but the cluster had aborted {len(lost)} of its {len(decision.tasks)} "
            "transactions before they could be committed (the driver was away for longer than transaction.timeout.ms)."
            " Lost:",
            *(f"  {task}" for task in lost),
            "Committed, and seen by readers:",
            *([f"  {task}" for task in kept] or ["  none"]),
            f"The query goes on after `barnabas spark repair {query}` with --rewrite-lost or --accept-loss; see "
            "docs/guide/exactly-once.md",
        ]
        super().__init__("\n".join(lines))
        self.decision = decision
