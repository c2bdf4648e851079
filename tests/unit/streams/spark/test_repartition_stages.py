"""Sub-topologies that follow one another in a batch: what was read of a repartition topic is what is committed."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from barnabas.errors import KafkaError
from barnabas.spark.exactly_once import commit_protocol
from barnabas.streams.spark import batch_protocol, state_protocol
from tests.unit.streams.spark import repartition_model as model
from tests.unit.streams.spark import state_model

sink = model.sink
BATCHES = 3

#: The ordinary form tries each ninth place of a crash, from another one on with each set-up.
PARTS = 9

#: Longer than a task's transaction may be open.
TOO_LONG_S = 2 * sink.TIMEOUT_MS / 1000


def run(
    cluster: model.Cluster, checkpoint: Any, name: str, processes: list[Any], most: int | None = None,
    *, answer_last: bool = True,
) -> int:  # fmt: skip
    requests = model.query(cluster, checkpoint, name, BATCHES, processes, random.Random(name))
    return sink.execute(cluster, requests, most, answer_last=answer_last)


@functools.cache
def requests_of_a_quiet_run() -> int:
    cluster = model.Cluster()
    sent = run(cluster, sink.Checkpoint(), "r1", [state_model.Process("p")])
    assert model.problems(cluster, BATCHES) == []
    return sent


def test_a_batch_goes_through_all_sub_topologies() -> None:
    cluster = model.Cluster()

    run(cluster, sink.Checkpoint(), "r1", [state_model.Process("p")])

    assert model.problems(cluster, BATCHES) == []
    given = [update.read for task in range(model.TASKS) for update in model.updates_in(cluster, sink.TOPIC, task)]
    last = [
        update.drawn
        for task in range(model.TASKS)
        for update in model.updates_in(cluster, model.topic_of(model.STAGES - 1), task)
    ]
    assert sorted(filter(None, given)) == sorted(last), "nothing waits for a batch to come"


@pytest.mark.parametrize("answer_last", [True, False], ids=["last request arrives", "last request is lost"])
@pytest.mark.parametrize("processes", ["live on", "die"])
@pytest.mark.parametrize("lag", [0, 7])
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_what_was_read_is_what_is_committed_wherever_driver_and_tasks_die(
    answer_last: bool, processes: str, lag: int, part: int
) -> None:
    for survived in range((part + lag) % PARTS, requests_of_a_quiet_run(), PARTS):
        cluster, checkpoint, before = model.Cluster(lag), sink.Checkpoint(), [state_model.Process("p")]
        run(cluster, checkpoint, "r1", before, survived, answer_last=answer_last)

        run(cluster, checkpoint, "r2", before if processes == "live on" else [state_model.Process("q")])

        assert model.problems(cluster, BATCHES) == [], f"after {survived} requests"


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_a_batch_whose_records_were_aborted_after_they_were_read_is_not_decided(part: int) -> None:
    failed = 0
    for before in range(part, requests_of_a_quiet_run(), PARTS):
        cluster, checkpoint, process = model.Cluster(), sink.Checkpoint(), state_model.Process("p")
        handle = state_model.Handle(model.query(cluster, checkpoint, "r1", BATCHES, [process], random.Random("r1")))
        for _ in range(before):
            handle.turn(cluster)
        cluster.broker.advance(TOO_LONG_S)
        while not handle.is_done:
            handle.turn(cluster)
        if isinstance(handle.failed, commit_protocol.TransactionsLostError):
            continue  # decided, and then not committed for so long: it says so
        failed += handle.failed is not None

        run(cluster, checkpoint, "r2", [process])

        assert model.problems(cluster, BATCHES) == [], f"after {before} requests"
    assert failed


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(300, 1300))]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_read_is_what_is_committed_with_zombies_frozen_drivers_and_dying_processes(seed: int) -> None:
    assert state_model.chaos(seed, job=model.JOB) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_read_is_what_is_committed_where_drivers_close_the_application(seed: int) -> None:
    assert state_model.chaos(seed, ends=True, job=model.JOB) == []


def not_comparing(batch: Any, attempts: Any) -> bool:
    """It takes what lies in the topic for what was reported."""
    return batch.producer_id >= 0 and not batch.is_control


def replacing_a_report(stages: Any, most_attempts: int) -> Any:
    """It computes a task again after others were told of it, and takes the later report (as Spark may)."""
    reports: list[Any] = []
    for tasks in stages:
        yield model.BeginStage(tuple(reports))
        reports += yield from batch_protocol.run_batch(tasks, most_attempts)
    yield model.BeginStage(())
    again = yield from batch_protocol.run_batch(stages[0][:1], most_attempts)
    return [*again, *reports[1:]]


def not_waiting(stages: Any, most_attempts: int) -> Any:
    """It begins a sub-topology when the first task before it has reported."""
    reports: list[Any] = []
    for tasks in stages:
        yield model.BeginStage(tuple(reports[:-1]))
        reports += yield from batch_protocol.run_batch(tasks, most_attempts)
    return reports


def reading_what_was_left_again(batch: int) -> int:
    return model.LEFT if batch <= 1 else 0


def trusting_what_is_held(task: Any, held: Any) -> Any:
    """It does not ask whether the state is of the attempt that counts, which read of attempts that counted."""
    decision = yield state_protocol.ReadDecision(task.batch - 1)
    if decision is not None and decision.batch == task.batch:
        return False
    if held.note is None:
        yield state_protocol.Restore(state_protocol.state_before(task, decision))
    held.note = None
    held.note = yield state_protocol.Compute()
    return True


MUTATIONS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "attempts are not compared": (model, "is_of_an_attempt_that_counts", not_comparing),
    "a report is replaced after others were told of it": (model, "run_stages", replacing_a_report),
    "a sub-topology begins before all have reported": (model, "run_stages", not_waiting),
    "what was left in the topic is read again": (model, "planned_end", reading_what_was_left_again),
    "what is held is trusted": (state_protocol, "run_task", trusting_what_is_held),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_rule_that_is_left_out_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, mutated = MUTATIONS[name]
    monkeypatch.setattr(place, attribute, mutated)

    def fails(seed: int) -> bool:
        try:
            return state_model.chaos(seed, job=model.JOB) != []
        except (AssertionError, KafkaError):
            return True

    assert any(fails(seed) for seed in range(60))


def test_without_faults_a_rule_that_only_faults_need_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "is_of_an_attempt_that_counts", not_comparing)
    cluster = model.Cluster()

    run(cluster, sink.Checkpoint(), "r1", [state_model.Process("p")])

    assert model.problems(cluster, BATCHES) == []
