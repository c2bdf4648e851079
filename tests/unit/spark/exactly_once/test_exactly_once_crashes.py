"""The exactly-once protocol with a crash between any two requests, in the model of `exactly_once_model`."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from barnabas.protocol.messages.list_transactions_request import ListTransactionsRequest
from barnabas.spark.exactly_once import commit_protocol as protocol
from tests.unit.spark.exactly_once import exactly_once_model as model

BATCHES = 3


@functools.cache
def requests_of_a_quiet_run() -> int:
    cluster = model.Cluster()
    run = model.query(cluster, model.Checkpoint(), "r1", BATCHES, model.new_workers("r1"))
    sent = model.execute(cluster, run)
    assert dict(cluster.rows()) == model.expected(BATCHES)
    return sent


def test_a_quiet_run_initializes_each_id_once() -> None:
    cluster, workers = model.Cluster(), model.new_workers("r1")

    model.execute(cluster, model.query(cluster, model.Checkpoint(), "r1", 10, workers))

    assert dict(cluster.rows()) == model.expected(10)
    assert [len(worker.pool("r1")) for worker in workers] == [1, 1, 1]


@pytest.mark.parametrize("answer_last", [True, False], ids=["last request arrives", "last request is lost"])
@pytest.mark.parametrize("broker", ["stays", "restarts"])
def test_every_row_is_seen_once_wherever_driver_and_tasks_die(answer_last: bool, broker: str) -> None:
    for survived in range(requests_of_a_quiet_run()):
        cluster, checkpoint = model.Cluster(), model.Checkpoint()
        first = model.query(cluster, checkpoint, "r1", BATCHES, model.new_workers("r1"))
        model.execute(cluster, first, survived, answer_last=answer_last)
        if broker == "restarts":
            cluster.crash()

        model.execute(cluster, model.query(cluster, checkpoint, "r2", BATCHES, model.new_workers("r2")))

        assert dict(cluster.rows()) == model.expected(BATCHES), f"after {survived} requests"


def test_the_same_when_the_workers_outlive_the_run() -> None:
    for survived in range(requests_of_a_quiet_run()):
        cluster, checkpoint, workers = model.Cluster(), model.Checkpoint(), model.new_workers("w")
        model.execute(cluster, model.query(cluster, checkpoint, "r1", BATCHES, workers), survived)

        model.execute(cluster, model.query(cluster, checkpoint, "r2", BATCHES, workers))

        assert dict(cluster.rows()) == model.expected(BATCHES), f"after {survived} requests"
        assert max(len(pool) for worker in workers for pool in worker.pools.values()) <= 2


def test_an_abort_after_a_commit_that_failed_anywhere_takes_nothing_back() -> None:
    allowed, is_over = 0, False
    while not is_over:
        cluster, checkpoint = model.Cluster(), model.Checkpoint()
        reports: list[protocol.TaskReport] = []

        def tasks(cluster: model.Cluster = cluster, reports: list[protocol.TaskReport] = reports) -> model.Requests:
            for partition, worker in enumerate(model.new_workers("r1")):
                reports.append((yield from model.attempt(cluster, worker, "r1", 0, partition)))

        model.execute(cluster, tasks())
        driver = model.DriverPerformer(cluster)
        commit = model.drive(protocol.commit_batch(0, reports), driver)
        is_over = model.execute(cluster, commit, allowed) < allowed
        model.execute(cluster, model.drive(protocol.abort_batch(reports), driver))

        model.execute(cluster, model.query(cluster, checkpoint, "r2", BATCHES, model.new_workers("r2")))

        assert dict(cluster.rows()) == model.expected(BATCHES), f"after {allowed} requests of the commit"
        allowed += 1


def test_an_abort_after_a_task_failed_takes_back_what_the_others_wrote() -> None:
    cluster = model.Cluster()
    reports: list[protocol.TaskReport] = []

    def tasks() -> model.Requests:
        reports.append((yield from model.attempt(cluster, model.Worker("w"), "r1", 0, 0)))

    model.execute(cluster, tasks())
    driver = model.DriverPerformer(cluster)
    model.execute(cluster, model.drive(protocol.abort_batch([*reports, None]), driver))
    model.execute(cluster, model.drive(protocol.abort_batch([None, None]), driver))

    assert cluster.request(ListTransactionsRequest(state_filters=["Ongoing"]), 1).transaction_states == []


def left_open(cluster: model.Cluster) -> list[str]:
    found = cluster.request(ListTransactionsRequest(state_filters=["Ongoing"]), 1).transaction_states
    return [each.transactional_id for each in found]


@pytest.mark.parametrize("worker", ["goes on under its id", "is new"])
def test_what_a_run_left_open_whose_reports_are_lost_is_aborted(worker: str) -> None:
    cluster, checkpoint, workers = model.Cluster(), model.Checkpoint(), model.new_workers("r1")
    model.execute(cluster, model.query(cluster, checkpoint, "r1", 1, workers))
    writes = model.Worker("other") if worker == "is new" else workers[0]
    model.execute(cluster, model.attempt(cluster, writes, "r1", 1, 0))
    assert left_open(cluster)

    model.execute(cluster, model.drive(protocol.abort_run("r1"), model.DriverPerformer(cluster)))

    assert left_open(cluster) == []
    model.execute(cluster, model.query(cluster, checkpoint, "r2", BATCHES, model.new_workers("r2")))
    assert dict(cluster.rows()) == model.expected(BATCHES)
