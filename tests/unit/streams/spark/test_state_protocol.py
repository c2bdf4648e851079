"""State, changelog and output are one story whatever dies: `state_protocol` in the model of `state_model`."""

from __future__ import annotations

import functools
import itertools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once import transactional_id_pool
from barnabas.spark.exactly_once.decision import COMPLETE, Decision, DecisionError, TaskState, TaskTransaction
from barnabas.streams.spark import batch_protocol, state_protocol
from tests.unit.streams.spark import state_model as model

sink = model.model
BATCHES = 3
#: 296: a ghost of a driver finds the last batch decided of which it knows nothing, and must not mark it as done.
SEEDS = (*range(6), 296)

#: The ordinary form tries each fifth place of a crash, from another one on with each set-up.
PARTS = 5


def run(
    cluster: model.Cluster, checkpoint: Any, name: str, processes: list[model.Process], most: int | None = None,
    *, answer_last: bool = True,
) -> int:  # fmt: skip
    requests = model.query(cluster, checkpoint, name, BATCHES, processes, random.Random(name))
    return sink.execute(cluster, requests, most, answer_last=answer_last)


@functools.cache
def requests_of_a_quiet_run() -> int:
    cluster, processes = model.Cluster(), [model.Process("p")]
    sent = run(cluster, sink.Checkpoint(), "r1", processes)
    assert model.problems(cluster, BATCHES) == []
    return sent


def test_a_process_that_keeps_its_tasks_restores_each_once() -> None:
    process = model.Process("p")

    run(model.Cluster(), sink.Checkpoint(), "r1", [process])

    assert process.restores == model.TASKS


def test_a_task_that_moves_between_processes_is_restored_where_it_has_not_computed_last() -> None:
    cluster, processes = model.Cluster(), [model.Process("p"), model.Process("q")]

    run(cluster, sink.Checkpoint(), "moves", processes)

    assert sum(process.restores for process in processes) > model.TASKS
    assert model.problems(cluster, BATCHES) == []


@pytest.mark.parametrize("answer_last", [True, False], ids=["last request arrives", "last request is lost"])
@pytest.mark.parametrize("processes", ["live on", "die"])
@pytest.mark.parametrize("lag", [0, 7])
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_state_and_output_agree_wherever_driver_and_tasks_die(
    answer_last: bool, processes: str, lag: int, part: int
) -> None:
    for survived in range((part + lag) % PARTS, requests_of_a_quiet_run(), PARTS):
        cluster, checkpoint, before = model.Cluster(lag), sink.Checkpoint(), [model.Process("p")]
        run(cluster, checkpoint, "r1", before, survived, answer_last=answer_last)

        run(cluster, checkpoint, "r2", before if processes == "live on" else [model.Process("q")])

        assert model.problems(cluster, BATCHES) == [], f"after {survived} requests"


@pytest.mark.shows("S3.115", breaks="barnabas.streams.spark.state_protocol:state_before")
@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(300, 1300))])
def test_state_and_output_agree_with_zombies_frozen_drivers_and_dying_processes(seed: int) -> None:
    assert model.chaos(seed) == []


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(300, 1300))])
def test_state_and_output_agree_where_drivers_close_the_application(seed: int) -> None:
    assert model.chaos(seed, ends=True) == []


def test_an_application_that_is_closed_keeps_all_that_is_decided() -> None:
    cluster, checkpoint, first, known = model.Cluster(), sink.Checkpoint(), model.Process("p"), []  # type: ignore[var-annotated]
    sink.execute(cluster, model.query(cluster, checkpoint, "r1", BATCHES, [first], random.Random(1), known=known))

    first.end(known[-1])

    for task in range(model.TASKS):
        records, _, _ = cluster.stable(model.CHANGELOG, task)
        assert first.disk[f"0_{task}"].position == records[-1].offset + 1
    assert first.held == {}


def test_a_process_reads_only_what_came_after_what_its_disk_keeps() -> None:
    cluster, checkpoint, first = model.Cluster(), sink.Checkpoint(), model.Process("p")
    run(cluster, checkpoint, "r1", [first], requests_of_a_quiet_run() * 2 // 3)
    late = model.Process("q", disk=first.disk)

    run(cluster, checkpoint, "r2", [late])

    assert model.problems(cluster, BATCHES) == []
    assert late.restores == model.TASKS
    assert late.read < sum(len(cluster.stable(model.CHANGELOG, task)[0]) for task in range(model.TASKS)) - 2


def test_a_state_is_kept_only_when_the_next_batch_finds_it_decided() -> None:
    process = model.Process("p")
    cluster = model.Cluster()

    run(cluster, sink.Checkpoint(), "r1", [process])

    for task in range(model.TASKS):
        records, _, _ = cluster.stable(model.CHANGELOG, task)
        kept = process.disk[f"0_{task}"]
        before = {r.key.decode(): model.Update(*model.json.loads(r.value)) for r in records if r.offset < kept.position}
        assert kept.store == before
        assert kept.position <= records[-1].offset, "the last batch is not known to be decided"


def test_an_attempt_that_was_thought_lost_does_not_count_when_it_comes_back() -> None:
    first, second = (protocol.TaskReport("q", "r", 3, 0, was_decided=each) for each in (False, True))
    steps = batch_protocol.run_batch(["0_0"], 2)

    assert next(steps) == batch_protocol.Place(("0_0",))
    assert next(steps) == batch_protocol.Start("0_0", 1)
    assert next(steps) == batch_protocol.Await()
    assert steps.send(batch_protocol.Outcome("0_0", 1, None)) == batch_protocol.Place(("0_0",))
    assert next(steps) == batch_protocol.Start("0_0", 2)
    assert next(steps) == batch_protocol.Await()
    assert steps.send(batch_protocol.Outcome("0_0", 1, first)) == batch_protocol.Await()
    with pytest.raises(StopIteration) as ended:
        steps.send(batch_protocol.Outcome("0_0", 2, second))
    assert ended.value.value == [second]


def test_a_task_whose_processes_are_lost_again_and_again_ends_the_batch() -> None:
    steps = batch_protocol.run_batch(["0_1"], 2)
    for _ in range(3):
        next(steps)  # Place, Start, Await
    steps.send(batch_protocol.Outcome("0_1", 1, None))
    for _ in range(2):
        next(steps)

    with pytest.raises(batch_protocol.TaskLostError, match="task 0_1 was lost 2 times in one batch"):
        steps.send(batch_protocol.Outcome("0_1", 2, None))


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("takes_over", ["before its tasks begin", "when it commits, as Spark's sink does"])
def test_a_driver_that_comes_back_aborts_nothing_of_the_run_after_it(
    takes_over: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It repeats batch 0, which another has decided, while the next run is at its first batch, which is batch 1."""
    if takes_over.startswith("when"):
        monkeypatch.setattr(protocol, "take_over", taking_over_late)
    for at, turns in itertools.product(range(4, 12), range(first, 8, 2)):
        cluster, checkpoint = model.Cluster(), sink.Checkpoint()
        back = beginning(cluster, checkpoint, "r1")
        while opened(cluster, "r1") < model.TASKS or not is_of_a_driver(back.request()):
            back.turn(cluster)
        sink.execute(cluster, model.query(cluster, checkpoint, "r2", 1, [model.Process("r2")], random.Random("r2")))
        after = beginning(cluster, checkpoint, "r3")
        while opened(cluster, "r3") < model.TASKS - 1:
            after.turn(cluster)
        for handle, most in ((back, at), (after, turns), (back, 100), (after, 500)):
            for _ in range(most):
                handle.turn(cluster)

        assert not isinstance(after.failed, protocol.TransactionsLostError), f"after {at} and {turns} requests"
        run(cluster, checkpoint, "r4", [model.Process("r4")])
        assert model.problems(cluster, BATCHES) == []


def beginning(cluster: model.Cluster, checkpoint: Any, name: str) -> model.Handle:
    return model.Handle(model.query(cluster, checkpoint, name, BATCHES, [model.Process(name)], random.Random(name)))


def is_of_a_driver(request: Any) -> bool:
    """Whether a run that sends this has all reports of its tasks."""
    return request is not None and type(request[0]).__name__ in ("ListTransactionsRequest", "InitProducerIdRequest")


def opened(cluster: model.Cluster, name: str) -> int:
    """Return how many transactions of this run are open."""
    answer = cluster.request(model.model.ListTransactionsRequest(state_filters=["Ongoing"]), 1)
    return sum(f"-task-{name}-" in each.transactional_id for each in answer.transaction_states)


def decided(batch: int, **fields: Any) -> Decision:
    return Decision(batch, "r1", **{"state": COMPLETE, **fields})


@pytest.mark.parametrize(
    ("batch", "message"), [(4, "batch 5 was committed already"), (6, "has lost rows that nobody has decided about")]
)
def test_a_batch_out_of_order_is_refused(batch: int, message: str) -> None:
    steps = state_protocol.run_task(state_protocol.TaskBatch("0_0", batch, 0), state_protocol.HeldTask())
    next(steps)

    with pytest.raises(DecisionError, match=message):
        steps.send(decided(5, state="lost" if batch > 5 else COMPLETE))


def test_a_lost_task_is_computed_again_from_what_it_had_left_before() -> None:
    old, new = TaskState("0_1", "old", {}), TaskState("0_1", "new", {})
    task = TaskTransaction(1, "id", 1, 1, 3, {}, new)
    decision = decided(5, state="rewrite", tasks=(task,), lost=(1,), states=(old,))

    def restored(name: str, partition: int) -> Any:
        held = state_protocol.HeldTask()
        held.note = "new"
        steps = state_protocol.run_task(state_protocol.TaskBatch(name, 5, partition), held)
        next(steps)
        try:
            return steps.send(decision)
        except StopIteration as ended:
            return ended.value

    assert restored("0_1", 1) == state_protocol.Restore(old)
    assert restored("0_0", 0) is False, "it was committed"


def trusting(task: Any, held: Any) -> Any:
    decision = yield state_protocol.ReadDecision(task.batch - 1)
    if decision is not None and decision.batch == task.batch:
        return False
    if held.note is None:
        yield state_protocol.Restore(state_protocol.state_before(task, decision))
    yield state_protocol.Keep(state_protocol.state_before(task, decision))
    held.note = None
    held.note = yield state_protocol.Compute()
    return True


def never_forgetting(task: Any, held: Any) -> Any:
    """It does not note that it has begun: a computation that stops in the middle leaves a state that looks whole."""
    decision = yield state_protocol.ReadDecision(task.batch - 1)
    if decision is not None and decision.batch == task.batch:
        return False
    before = state_protocol.state_before(task, decision)
    if held.note is None or before is None or held.note != before.note:
        yield state_protocol.Restore(before)
    yield state_protocol.Keep(before)
    held.note = yield state_protocol.Compute()
    return True


def keeping_at_once(task: Any, held: Any) -> Any:
    """It keeps what it has computed before it is decided."""
    decision = yield state_protocol.ReadDecision(task.batch - 1)
    if decision is not None and decision.batch == task.batch:
        return False
    before = state_protocol.state_before(task, decision)
    if held.note is None or before is None or held.note != before.note:
        held.note = None
        yield state_protocol.Restore(before)
    held.note = None
    held.note = yield state_protocol.Compute()
    yield state_protocol.Keep(before)
    return True


def reading_what_is_stable(self: Any, state: Any) -> Any:
    yield from _RESTORE(self, None)


_RESTORE = model.EnginePerformer.Restore


def reading_an_old_decision(self: Any, least: int) -> Any:
    yield None
    return model.last_decision(self.cluster)[0]


def not_sweeping(decision: Any, query: str) -> Any:
    return (yield from protocol.finish(decision, query))


def counting_every_report(tasks: Any, most_attempts: int) -> Any:
    """It begins a second attempt where the first is lost, and takes the reports of both."""
    reports, waiting = [], dict.fromkeys(tasks, 1)
    yield batch_protocol.Place(tuple(tasks))
    for task in tasks:
        yield batch_protocol.Start(task, 1)
        yield batch_protocol.Start(task, 2)
    for _ in range(2 * len(waiting)):
        found = yield batch_protocol.Await()
        reports += [found.report] if found.report is not None else []
    return reports


def keeping_what_is_held(held: Any, decided: Any) -> Any:
    """It does not ask whether what it holds is what was decided."""
    note, held.note = held.note, None
    if note is None or decided is None:
        return False
    yield state_protocol.Keep(decided)
    return True


MUTATIONS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "what is held is trusted": (state_protocol, "run_task", trusting),
    "the beginning is not noted": (state_protocol, "run_task", never_forgetting),
    "what is computed is kept at once": (state_protocol, "run_task", keeping_at_once),
    "changelogs are read to what is stable": (model.EnginePerformer, "Restore", reading_what_is_stable),
    "the decision log is not read to its end": (model.EnginePerformer, "ReadDecision", reading_an_old_decision),
    "each report of a task counts": (batch_protocol, "run_batch", counting_every_report),
    "what is held at the end is kept": (state_protocol, "end_task", keeping_what_is_held),
    "what a dead driver left open stays open": (protocol, "_finish_and_abort_strangers", not_sweeping),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_protocol_without_one_of_its_rules_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, mutated = MUTATIONS[name]
    monkeypatch.setattr(place, attribute, mutated)
    monkeypatch.setattr(model.Driver, "has_marks", mutated is not reading_an_old_decision)

    def fails(seed: int) -> bool:
        try:
            return model.chaos(seed, ends=mutated is keeping_what_is_held) != []
        except AssertionError:
            return True

    assert any(fails(seed) for seed in range(120))


def test_the_decision_log_is_read_to_its_end_where_its_last_record_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.Driver, "has_marks", False)

    assert [model.chaos(seed) for seed in range(8)] == [[]] * 8


#: Drivers come back, or take over, while the mark of the batch before was not written yet.
LATE_MARKS = (131, 256, 330)


def taking_over_late(run: str) -> Any:
    """As the sink's driver, which Spark asks for nothing before the tasks of the first batch."""
    yield from ()


@pytest.fixture
def late_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "take_over", taking_over_late)
    monkeypatch.setattr(model.Driver, "has_marks", False)


@pytest.mark.usefixtures("late_drivers")
def test_a_driver_that_finds_a_batch_decided_but_not_marked_takes_nothing_for_lost() -> None:
    assert [model.chaos(seed) for seed in LATE_MARKS] == [[]] * len(LATE_MARKS)


@pytest.mark.usefixtures("late_drivers")
def test_tasks_that_go_on_under_an_id_before_the_mark_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_id_pool, "_is_finished", lambda use, decision: use.batch <= decision.batch)

    assert [] not in [model.chaos(seed) for seed in LATE_MARKS]
