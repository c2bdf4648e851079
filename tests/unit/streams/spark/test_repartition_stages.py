"""Sub-topologies that follow one another in a batch: what was read of a repartition topic is what is committed."""

from __future__ import annotations

import functools
import itertools
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from barnabas.errors import KafkaError
from barnabas.spark import transaction_rows
from barnabas.spark.exactly_once import commit_protocol
from barnabas.spark.exactly_once.decision import Decision
from barnabas.spark.exactly_once.repair import REWRITE_LOST
from barnabas.spark.ranges import OffsetRange
from barnabas.streams.spark import batch_protocol, batch_stages, read_positions, run_protocol, state_protocol
from barnabas.streams.spark.batch_stages import StagedBatch
from tests.unit.streams.spark import repartition_model as model
from tests.unit.streams.spark import state_model

sink = model.sink
BATCHES = 3

#: The ordinary form tries each eighteenth place of a crash, from another one on with each set-up.
PARTS = 18

#: Longer than a task's transaction may be open.
TOO_LONG_S = 2 * sink.TIMEOUT_MS / 1000


def run(
    cluster: model.Cluster, checkpoint: Any, name: str, processes: list[Any], most: int | None = None,
    *, answer_last: bool = True, modes: model.Modes = model.always,
) -> int:  # fmt: skip
    requests = model.query(cluster, checkpoint, name, BATCHES, processes, random.Random(name), modes=modes)
    return sink.execute(cluster, requests, most, answer_last=answer_last)


@functools.cache
def requests_of_a_quiet_run() -> int:
    cluster = model.Cluster()
    sent = run(cluster, model.Checkpoint(), "r1", [state_model.Process("p")])
    assert model.problems(cluster, BATCHES) == []
    return sent


def test_a_batch_goes_through_all_sub_topologies() -> None:
    cluster = model.Cluster()

    run(cluster, model.Checkpoint(), "r1", [state_model.Process("p")])

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
        cluster, checkpoint, before = model.Cluster(lag), model.Checkpoint(), [state_model.Process("p")]
        run(cluster, checkpoint, "r1", before, survived, answer_last=answer_last)

        run(cluster, checkpoint, "r2", before if processes == "live on" else [state_model.Process("q")])

        assert model.problems(cluster, BATCHES) == [], f"after {survived} requests"


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_a_batch_whose_records_were_aborted_after_they_were_read_is_not_decided(part: int) -> None:
    failed = 0
    for before in range(part, requests_of_a_quiet_run(), PARTS):
        cluster, checkpoint, process = model.Cluster(), model.Checkpoint(), state_model.Process("p")
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


REAL: model.Modes = {"r1": False, "r2": True, "r3": True}.__getitem__
OFF_AGAIN: model.Modes = {"r1": True, "r2": False, "r3": True}.__getitem__


@pytest.mark.parametrize("answer_last", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("modes", [REAL, OFF_AGAIN], ids=["switched on", "switched off and on"])
@pytest.mark.parametrize("lag", [7, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_nothing_is_read_twice_or_not_at_all_where_the_option_is_switched(
    answer_last: bool, modes: model.Modes, lag: int, part: int
) -> None:
    for survived in range((part + lag) % PARTS, requests_of_a_quiet_run(), PARTS):
        cluster, checkpoint, process = model.Cluster(lag), model.Checkpoint(), state_model.Process("p")
        run(cluster, checkpoint, "r1", [process], survived, answer_last=answer_last, modes=modes)

        run(cluster, checkpoint, "r2", [process], modes=modes)
        run(cluster, checkpoint, "r3", [process], modes=modes)

        assert model.problems(cluster, BATCHES) == [], f"after {survived} requests"


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(300, 1300))]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_read_is_what_is_committed_with_zombies_frozen_drivers_and_dying_processes(seed: int) -> None:
    assert state_model.chaos(seed, job=model.JOB) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_read_is_what_is_committed_where_drivers_close_the_application(seed: int) -> None:
    assert state_model.chaos(seed, ends=True, job=model.JOB) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_where_each_run_may_switch_the_option(seed: int) -> None:
    assert state_model.chaos(seed, ends=seed % 2 == 0, job=model.SWITCHED) == []


TASK_NAMES = [f"{stage}_{partition}" for stage in range(model.STAGES) for partition in range(model.TASKS)]
LOSSES = [
    lost
    for size in range(1, len(TASK_NAMES) + 1)
    for lost in itertools.combinations(TASK_NAMES, size)
]  # fmt: skip
#: Whether the run that loses, the one that repairs and the one after it read within the batch.
THREE_RUNS = [*itertools.product([True, False], repeat=2)]


def repaired(lost: Sequence[str], batch: int, modes: tuple[bool, bool], again: Sequence[str] = ()) -> list[str] | None:
    """Lose what these tasks have written in a batch, and repair it, maybe twice; None where nothing was there to lose.

    Returns what is wrong then.
    """
    cluster, checkpoint, process = model.Cluster(), model.Checkpoint(), state_model.Process("p")
    cluster.is_repeatable, cluster.idle = True, frozenset()
    within = {"r1": modes[0], "r2": modes[1], "r3": modes[1], "r4": True}.__getitem__
    losing = model.losing_query(cluster, checkpoint, "r1", BATCHES, [process], lost, batch, modes=within)
    if not _loses(cluster, losing):
        return None
    sink.execute(cluster, model.repairing(cluster, REWRITE_LOST))
    if again:
        losing = model.losing_query(cluster, checkpoint, "r2", BATCHES, [process], again, batch, modes=within)
        if _loses(cluster, losing):
            sink.execute(cluster, model.repairing(cluster, REWRITE_LOST))
    run(cluster, checkpoint, "r3", [process], modes=within)
    run(cluster, checkpoint, "r4", [process], modes=within)
    return model.problems(cluster, BATCHES)


def _loses(cluster: model.Cluster, losing: Any) -> bool:
    try:
        sink.execute(cluster, losing)
    except commit_protocol.TransactionsLostError:
        return True
    return False


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("modes", THREE_RUNS, ids=str)
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_what_was_lost_is_written_again_and_read_by_those_who_have_not_read_it(
    batch: int, modes: tuple[bool, bool], part: int
) -> None:
    told = [repaired(lost, batch, modes) for lost in LOSSES[(part + batch) % PARTS :: PARTS]]

    assert [each for each in told if each] == []
    assert [] in told or (batch == BATCHES - 1 and not modes[0]), "something was lost"


@pytest.mark.parametrize("modes", THREE_RUNS, ids=str)
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
def test_what_was_lost_when_it_was_written_again_is_written_once_more(modes: tuple[bool, bool], seed: int) -> None:
    choose = random.Random(seed)
    lost = choose.choice(LOSSES)

    assert not repaired(lost, choose.randrange(2), modes, choose.choice(LOSSES)), lost


def not_comparing(producer_id: int, epoch: int, is_control: bool, transactions: Any) -> bool:
    """It takes what lies in the topic for what was reported."""
    return producer_id >= 0 and not is_control


def replacing_a_report(stages: int, most_attempts: int) -> Any:
    """It computes a task again after others were told of it, and takes the later report (as Spark may)."""
    reports: list[Any] = []
    first: list[str] = []
    for stage in range(stages):
        tasks = yield batch_protocol.Begin(stage, tuple(reports))
        first = first or tasks[:1]
        reports += yield from batch_protocol.run_batch(tasks, most_attempts)
    again = yield from batch_protocol.run_batch(first, most_attempts)
    return [*again, *reports[len(first) :]]


def not_waiting(stages: int, most_attempts: int) -> Any:
    """It begins a stage when all but one task before it have reported."""
    reports: list[Any] = []
    for stage in range(stages):
        tasks = yield batch_protocol.Begin(stage, tuple(reports[:-1]))
        reports += yield from batch_protocol.run_batch(tasks, most_attempts)
    return reports


within: Any = StagedBatch._within
rewritten: Any = StagedBatch._rewritten


def reading_what_was_left_again(self: Any, place: Any, written: Any) -> Any:
    self._remains = self._remains._replace(are_read=False)
    self._positions = {}
    return within(self, place, written)


def reading_what_is_planned(self: Any, place: Any, planned: Any) -> Any:
    """It goes by Spark's offsets."""
    return planned


@property  # type: ignore[misc]  # it stands in for one of a class
def taking_what_waits_for_markers(self: Any) -> Any:
    """It says that a topic is read to its end where the next batch reads it, or has to find what was left."""
    return model.LEVELS.inner


def trusting_the_group(self: Any, place: Any, written: Any) -> Any:
    """It begins where the group has committed, though a decision knows better."""
    self._positions = {}
    return within(self, place, written)


def leaving_what_was_left(self: Any, of: Any, planned: Any) -> Any:
    """After its first batch it waits for input, whatever that batch was."""
    if not planned.works and not self._is_first:
        return None
    return (yield from batch_of_run(self, of, planned))


batch_of_run: Any = run_protocol.Run.batch


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
    "attempts are not compared": (transaction_rows, "is_of", not_comparing),
    "a report is replaced after others were told of it": (batch_protocol, "run_stages", replacing_a_report),
    "a stage begins before all have reported": (batch_protocol, "run_stages", not_waiting),
    "what was left in the topic is read again": (StagedBatch, "_within", reading_what_was_left_again),
    "what is held is trusted": (state_protocol, "run_task", trusting_what_is_held),
}  # fmt: skip


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


SWITCHING_MUTATIONS: dict[str, tuple[Any, str, Any]] = {
    "what waits for the next batch counts as read": (run_protocol.Run, "whole", taking_what_waits_for_markers),
    "a reader begins where the group stands": (StagedBatch, "_within", trusting_the_group),
    "what was left waits for input": (run_protocol.Run, "batch", leaving_what_was_left),
}


@pytest.mark.parametrize("name", SWITCHING_MUTATIONS)
def test_a_rule_of_switching_that_is_left_out_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, mutated = SWITCHING_MUTATIONS[name]
    monkeypatch.setattr(place, attribute, mutated)

    def fails(survived: int) -> bool:
        cluster, checkpoint, process = model.Cluster(7), model.Checkpoint(), state_model.Process("p")
        run(cluster, checkpoint, "r1", [process], survived, modes=REAL)
        for name in ("r2", "r3"):
            run(cluster, checkpoint, name, [process], modes=REAL)
        return model.problems(cluster, BATCHES) != []

    assert any(fails(survived) for survived in range(requests_of_a_quiet_run() - 1, 0, -7))


@pytest.mark.slow
def test_it_is_found_out_where_a_reader_goes_by_what_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StagedBatch, "_planned_range", reading_what_is_planned)

    assert any(state_model.chaos(seed, job=model.SWITCHED) for seed in range(200))


def from_where_the_decision_stands(self: Any, id: Any, written: Any) -> Any:
    """A lost reader begins where the others have read up to."""
    found = rewritten(self, id, written)
    if found is None:
        return None
    ranges = tuple(
        OffsetRange(place, max(start, self._positions.get(place, 0)), end) for place, start, end in found.planned.ranges
    )
    return found._replace(planned=found.planned._replace(ranges=ranges))


def by_notes_alone(decision: Decision | None) -> Any:
    """It takes a reader's own note for where it stands, though what it had read was written anew."""
    states = [] if decision is None else [state._replace(ends={}) for state in decision.states_after().values()]
    return positions_of(None if decision is None else decision._replace(tasks=(), states=tuple(states)))


positions_of = read_positions.positions_of


def as_it_is_set(transaction: Any) -> bool:
    """It writes a batch again as batches are computed now, not as this one was."""
    return True


REPAIR_MUTATIONS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a lost reader begins where the others stand": (StagedBatch, "_rewritten", from_where_the_decision_stands),
    "positions are those of notes": (batch_stages, "positions_of", by_notes_alone),
    "a batch is written again in another way": (batch_stages, "_was_within", as_it_is_set),
}


@pytest.mark.parametrize("name", REPAIR_MUTATIONS)
def test_a_rule_of_repairing_that_is_left_out_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, mutated = REPAIR_MUTATIONS[name]
    monkeypatch.setattr(place, attribute, mutated)

    def fails(lost: Sequence[str], batch: int, modes: tuple[bool, bool]) -> bool:
        try:
            return bool(repaired(lost, batch, modes, again=lost))
        except (AssertionError, KafkaError):
            return True

    assert any(fails(lost, batch, modes) for lost in LOSSES for batch in (0, 1) for modes in reversed(THREE_RUNS))


def test_without_faults_a_rule_that_only_faults_need_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_rows, "is_of", not_comparing)
    cluster = model.Cluster()

    run(cluster, model.Checkpoint(), "r1", [state_model.Process("p")])

    assert model.problems(cluster, BATCHES) == []
