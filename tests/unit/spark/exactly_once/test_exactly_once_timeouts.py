"""Where exactly-once ends: transactions that the cluster aborts, what is said of them, and what can be done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once.decision import COMPLETE, LOST, DecisionError, TransactionsLostError
from barnabas.spark.exactly_once.repair import ACCEPT_LOSS, REWRITE_LOST, repair
from tests.unit.spark.exactly_once import exactly_once_model as model

TOO_LONG = 1200.0
BATCHES = 2


class DriverGoneError(Exception):
    """The driver is gone."""


class DyingPerformer(model.DriverPerformer):
    """A driver that dies once it has decided a batch and committed so many of its transactions."""

    def __init__(self, cluster: model.Cluster, commits: int) -> None:
        super().__init__(cluster)
        self._commits = commits

    def EndAll(self, transactions: Any, commit: bool) -> model.Requests:
        yield from super().EndAll(transactions[: self._commits], commit)
        raise DriverGoneError


def decided_but_not_finished(commits: int, strangers: int = 0) -> tuple[model.Cluster, model.Checkpoint]:
    cluster, checkpoint = model.Cluster(), model.Checkpoint()
    for number in range(strangers):
        model.execute(cluster, model.attempt(cluster, model.Worker(f"slow-{number}"), "r1", 0, number))

    def run() -> model.Requests:
        reports = []
        for partition, worker in enumerate(model.new_workers("r1")):
            reports.append((yield from model.attempt(cluster, worker, "r1", 0, partition)))
        yield from model.drive(protocol.commit_batch(0, reports), DyingPerformer(cluster, commits))

    with pytest.raises(DriverGoneError):
        model.execute(cluster, run())
    return cluster, checkpoint


def start(cluster: model.Cluster, checkpoint: model.Checkpoint, run: str) -> None:
    model.execute(cluster, model.query(cluster, checkpoint, run, BATCHES, model.new_workers(run)))


def do_repair(cluster: model.Cluster, choice: str | None) -> Any:
    found = []

    def steps() -> model.Requests:
        found.append((yield from model.drive(repair(model.QUERY, choice), model.DriverPerformer(cluster))))

    model.execute(cluster, steps())
    return found[0]


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_a_driver_that_comes_back_in_time_finishes_what_was_decided(commits: int) -> None:
    cluster, checkpoint = decided_but_not_finished(commits)
    cluster.advance(model.TIMEOUT_MS / 1000 - 60)

    start(cluster, checkpoint, "r2")

    assert dict(cluster.rows()) == model.expected(BATCHES)


@pytest.mark.parametrize("commits", [0, 1])
def test_one_that_comes_too_late_stops_with_what_was_committed_and_what_was_lost(commits: int) -> None:
    cluster, checkpoint = decided_but_not_finished(commits)
    cluster.advance(TOO_LONG)
    seen = cluster.rows()

    for run in ("r2", "r3"):
        with pytest.raises(TransactionsLostError) as stopped:
            start(cluster, checkpoint, run)

        lost, kept = str(stopped.value).split("Committed, and seen by readers:")
        assert [f"task {number}" in lost for number in range(3)] == [number >= commits for number in range(3)]
        assert [f"task {number}" in kept for number in range(3)] == [number < commits for number in range(3)]
    assert cluster.rows() == seen
    assert checkpoint.committed == -1


@pytest.mark.parametrize("commits", [0, 1])
def test_lost_rows_are_written_again_by_explicit_choice_and_no_others(commits: int) -> None:
    cluster, checkpoint = decided_but_not_finished(commits)
    cluster.advance(TOO_LONG)

    decision = do_repair(cluster, REWRITE_LOST)
    start(cluster, checkpoint, "r2")

    assert decision.lost == tuple(range(commits, 3))
    assert dict(cluster.rows()) == model.expected(BATCHES)


def test_a_rewrite_that_is_interrupted_anywhere_is_still_written_once() -> None:
    survived, is_over = 0, False
    while not is_over:
        cluster, checkpoint = decided_but_not_finished(1)
        cluster.advance(TOO_LONG)
        do_repair(cluster, REWRITE_LOST)
        again = model.query(cluster, checkpoint, "r2", BATCHES, model.new_workers("r2"))
        is_over = model.execute(cluster, again, survived) < survived

        start(cluster, checkpoint, "r3")

        assert dict(cluster.rows()) == model.expected(BATCHES), f"after {survived} requests"
        survived += 1


def test_accepting_the_loss_lets_the_query_go_on() -> None:
    cluster, checkpoint = decided_but_not_finished(1)
    cluster.advance(TOO_LONG)

    decision = do_repair(cluster, ACCEPT_LOSS)
    start(cluster, checkpoint, "r2")

    lost = {row for task in (1, 2) for rows in model.rows_of(0, task).values() for row in rows}
    assert decision.state == COMPLETE
    assert set(cluster.rows()) == set(model.expected(BATCHES)) - lost
    assert set(cluster.rows().values()) == {1}


def test_repair_without_choice_commits_what_can_be_and_aborts_what_nobody_needs() -> None:
    cluster, _ = decided_but_not_finished(0)
    stray = model.attempt(cluster, model.Worker("stray"), "r9", 1, 0)
    model.execute(cluster, stray)

    decision = do_repair(cluster, None)

    batch = {row for task in range(3) for rows in model.rows_of(0, task).values() for row in rows}
    assert decision.state == COMPLETE
    assert set(cluster.rows()) == batch
    assert cluster.request(model.ListTransactionsRequest(state_filters=["Ongoing"]), 1).transaction_states == []


def test_a_choice_where_nothing_is_lost_is_refused() -> None:
    cluster, _ = decided_but_not_finished(0)

    with pytest.raises(DecisionError, match="has lost no rows"):
        do_repair(cluster, ACCEPT_LOSS)


def test_a_query_does_not_go_past_a_batch_that_lost_rows() -> None:
    cluster, checkpoint = decided_but_not_finished(0)
    cluster.advance(TOO_LONG)
    with pytest.raises(TransactionsLostError):
        start(cluster, checkpoint, "r2")
    assert cluster.decision() is not None
    assert cluster.decision().state == LOST  # type: ignore[union-attr]

    checkpoint.committed = 0
    with pytest.raises(DecisionError, match="has lost rows that nobody has decided about"):
        start(cluster, checkpoint, "r3")


def test_tasks_whose_transactions_timed_out_before_the_decision_are_written_again() -> None:
    cluster, checkpoint, workers = model.Cluster(), model.Checkpoint(), model.new_workers("r1")

    def run() -> model.Requests:
        reports = [(yield from model.attempt(cluster, workers[0], "r1", 0, 0))]
        cluster.advance(TOO_LONG)
        for partition in (1, 2):
            reports.append((yield from model.attempt(cluster, workers[partition], "r1", 0, partition)))
        yield from model.drive(protocol.commit_batch(0, reports), model.DriverPerformer(cluster))

    with pytest.raises(DecisionError, match="batch 0 was not committed and will be written again"):
        model.execute(cluster, run())
    assert cluster.rows() == {}

    start(cluster, checkpoint, "r2")

    assert dict(cluster.rows()) == model.expected(BATCHES)


class Overlooking(model.DriverPerformer):
    """A driver whose user may not see that coordinators move: one of them is left out of its list."""

    def ListOpen(self, run: str = "") -> model.Requests:
        found = yield from super().ListOpen(run)
        return {name: value for name, value in found.items() if "r1-r1-1" not in name}


def test_a_transaction_that_the_list_left_out_is_asked_for_by_its_id() -> None:
    cluster = model.Cluster()

    def run() -> model.Requests:
        reports = []
        for partition, worker in enumerate(model.new_workers("r1")):
            reports.append((yield from model.attempt(cluster, worker, "r1", 0, partition)))
        yield from model.drive(protocol.commit_batch(0, reports), Overlooking(cluster))

    model.execute(cluster, run())

    assert dict(cluster.rows()) == model.expected(1)


def test_a_checkpoint_that_was_set_back_is_refused() -> None:
    cluster, checkpoint = model.Cluster(), model.Checkpoint()
    start(cluster, checkpoint, "r1")
    checkpoint.committed = -1

    with pytest.raises(DecisionError, match="checkpoint was set back"):
        start(cluster, checkpoint, "r2")

    assert dict(cluster.rows()) == model.expected(BATCHES)


def test_what_a_dead_driver_left_open_is_aborted_when_its_batch_is_found_decided() -> None:
    """A task of the next batch may have to read past it, so the next sweep would come too late."""
    cluster, checkpoint = decided_but_not_finished(1, strangers=2)

    def first_batch() -> model.Requests:
        yield from model.query(cluster, checkpoint, "r2", 1, model.new_workers("r2"))
        return (yield from model.DriverPerformer(cluster).ListOpen())

    open_now: list[Any] = []

    def look() -> model.Requests:
        open_now.append((yield from first_batch()))

    model.execute(cluster, look())

    assert open_now == [{}]
    assert dict(cluster.rows()) == model.expected(1)
