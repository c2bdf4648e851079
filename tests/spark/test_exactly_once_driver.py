"""The driver's side of the exactly-once sink on a running broker."""

from __future__ import annotations

import itertools

import pytest

from barnabas.spark.client_cache import ClientCache
from barnabas.spark.exactly_once import driver_steps as driver
from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.spark.exactly_once.decision import TaskTransaction
from barnabas.spark.exactly_once.driver_steps import Driver, SinkPlace


def test_any_process_of_sparks_may_commit_any_batch(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SinkPlace((("bootstrap.servers", servers),), "decisions-of-two", "two")
    processes: list[ClientCache[Driver]] = [ClientCache(most_idle=4), ClientCache(most_idle=4)]

    for batch, process in enumerate(itertools.chain(processes, processes, [processes[1]], processes)):
        monkeypatch.setattr(driver, "_DRIVERS", process)
        driver.commit(place, batch, [TaskReport("q", "r", batch, 0, TaskTransaction(0, "", -1, -1, 0, {}))])

    decision = driver.repair(place, "q", None)
    assert decision is not None
    assert decision.batch == 6
    for process in processes:
        process.close()
