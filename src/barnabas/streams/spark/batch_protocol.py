"""How the driver has the tasks of a batch computed: each by one attempt that counts, as a state machine.

A generator as those of `barnabas.spark.exactly_once.commit_protocol`. Processes of tasks outlive a batch. One that is
lost is replaced by another one, which computes the batch again; the lost one may go on, for all the driver knows. So of
each task one report counts, that of its last attempt: what other attempts have written is named in no decision, and is
aborted with all that is open when the batch is decided.

Where repartition topics are read within the batch, its tasks come in stages: those of one begin when all before have
reported, and are told these reports. A report that others were told of stays: its task is not computed again. Where
what it wrote is gone since (its transaction ran out of time), the driver does not find it open, and the batch is not
decided. So what a task has read is committed by the same decision as what it made of it, or neither is.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.streams.errors import StreamsError


class Begin(NamedTuple):
    """Begin a stage, whose tasks read what these reports of all stages before tell; gives the names of its tasks."""

    stage: int
    reports: tuple[TaskReport, ...]


class Place(NamedTuple):
    """Have a process for each of these tasks."""

    tasks: tuple[str, ...]


class Start(NamedTuple):
    """Have the task's process compute the batch; what comes of it is told by `Await`."""

    task: str
    attempt: int


class Await(NamedTuple):
    """Wait for what comes of any attempt; gives an Outcome, or raises the task's own error."""


class Outcome(NamedTuple):
    """What came of an attempt; `report` is None when its process is lost."""

    task: str
    attempt: int
    report: TaskReport | None


class TaskLostError(StreamsError):
    """The processes of a task were lost again and again."""


Steps = Generator[Any, Any, list[TaskReport]]


def run_stages(stages: int, most_attempts: int) -> Steps:
    """Return a report for each task of a batch. Raises TaskLostError as `run_batch` does."""
    reports: list[TaskReport] = []
    for stage in range(stages):
        tasks: Sequence[str] = yield Begin(stage, tuple(reports))
        reports += yield from run_batch(tasks, most_attempts)
    return reports


def run_batch(tasks: Sequence[str], most_attempts: int) -> Steps:
    """Return a report for each task. Raises TaskLostError when a task's processes are lost so often."""
    attempts = dict.fromkeys(tasks, 0)
    reports: dict[str, TaskReport] = {}
    waiting = tuple(tasks)
    while len(reports) < len(attempts):
        if waiting:
            yield Place(waiting)
            for task in waiting:
                attempts[task] += 1
                yield Start(task, attempts[task])
            waiting = ()
        found: Outcome = yield Await()
        if found.attempt != attempts[found.task]:
            continue  # it was thought lost
        if found.report is not None:
            reports[found.task] = found.report
        elif found.attempt >= most_attempts:
            raise TaskLostError(
                f"the process of task {found.task} was lost {most_attempts} times in one batch: see the executors' "
                "logs (memory, for one), or raise spark.task.maxFailures"
            )
        else:
            waiting = (found.task,)
    return [reports[task] for task in tasks]
