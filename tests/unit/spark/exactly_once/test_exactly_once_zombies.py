"""The exactly-once protocol with everything at once: drivers and tasks that freeze, die or come back late."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from barnabas.errors import KafkaError
from barnabas.spark.exactly_once import commit_protocol as protocol
from tests.unit.spark.exactly_once import exactly_once_model as model

BATCHES, TASKS = 6, 3
TICKS = 1500


class Handle:
    """A process of the simulation: it does one request a turn."""

    def __init__(self, requests: model.Requests, worker: model.Worker | None = None, run: str = "") -> None:
        self.requests = requests
        self.worker = worker
        self.run = run
        self.is_done = False
        self.result: Any = None
        self.frozen_until = 0
        self._pending: Any = None
        self._is_started = False

    def turn(self, cluster: model.Cluster) -> None:
        try:
            if not self._is_started:
                self._is_started = True
                self._pending = next(self.requests)
                return
            answer = cluster.advance(0.02) if self._pending is None else cluster.request(*self._pending)
            self._pending = self.requests.send(answer)
        except StopIteration as ended:
            self.is_done, self.result = True, ended.value
        except KafkaError:
            self.is_done = True


class Chaos:
    """Runs of one query, some of them at the same time, with two attempts of some tasks, on one cluster."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = model.Cluster()
        self.checkpoint = model.Checkpoint()
        self.live: list[Handle] = []
        self.workers: list[model.Worker] = []
        self.tick = 0
        self.runs = 0
        self.processes = 0

    def start(self) -> None:
        self.runs += 1
        run = f"r{self.runs}"
        self.live.append(Handle(self.query(run), run=run))

    def query(self, run: str) -> model.Requests:
        driver = model.DriverPerformer(self.cluster)
        batch = self.checkpoint.committed
        while (batch := batch + 1) < BATCHES:
            reports = yield from self.batch(run, batch, driver)
            if self.random.random() < 0.1:
                yield from model.drive(protocol.abort_run(run), driver)
                raise KafkaError("Spark: a task failed, and what the others reported is lost")
            try:
                yield from model.drive(protocol.commit_batch(batch, reports), driver)
            except KafkaError:
                # What Spark does, whatever the reason.
                yield from model.drive(protocol.abort_batch(reports), driver)
                raise
            if self.checkpoint.committed >= batch:
                raise KafkaError("Spark: another run has committed this batch")
            self.checkpoint.committed = batch

    def batch(self, run: str, batch: int, driver: model.DriverPerformer) -> model.Requests:
        attempts = {task: [self.spawn(run, batch, task)] for task in range(TASKS)}
        for task in attempts:
            if self.random.random() < 0.3:
                attempts[task].append(self.spawn(run, batch, task))
        while True:
            yield None
            winners = {
                task: next((each.result for each in tried if each.result is not None), None)
                for task, tried in attempts.items()
            }
            if all(winner is not None for winner in winners.values()):
                return list(winners.values())
            for task, tried in attempts.items():
                if all(each.is_done and each.result is None for each in tried):
                    if len(tried) < 4:
                        tried.append(self.spawn(run, batch, task))
                        continue
                    yield from model.drive(protocol.abort_batch(list(winners.values())), driver)
                    raise KafkaError("Spark: a task failed four times")

    def spawn(self, run: str, batch: int, task: int) -> Handle:
        busy = {id(each.worker) for each in self.live}
        idle = [worker for worker in self.workers if id(worker) not in busy]
        worker = self.random.choice(idle) if idle and self.random.random() < 0.8 else None
        if worker is None:
            self.processes += 1
            worker = model.Worker(f"w{self.processes}")
            self.workers.append(worker)
        handle = Handle(model.attempt(self.cluster, worker, run, batch, task), worker, run)
        self.live.append(handle)
        return handle

    def step(self) -> None:
        self.tick += 1
        chance = self.random.random()
        if chance < 0.002:
            self.cluster.crash()
        elif chance < 0.006:
            self.kill()
        elif chance < 0.010 or not any(each.worker is None for each in self.live):
            self.start()
        self.cluster.advance(self.random.choice((0, 0, 0, 0.02, 0.2)))
        awake = [each for each in self.live if each.frozen_until <= self.tick]
        if awake:
            chosen = self.random.choice(awake)
            if self.random.random() < 0.02:
                chosen.frozen_until = self.tick + self.random.randint(20, 400)
                return
            chosen.turn(self.cluster)
            self.live = [each for each in self.live if not each.is_done]

    def kill(self) -> None:
        """A driver dies; its tasks die with it, or go on as zombies."""
        runs = [each for each in self.live if each.worker is None]
        if runs:
            dead = self.random.choice(runs)
            with_tasks = self.random.random() < 0.5
            gone = [each for each in self.live if each is dead or (with_tasks and each.run == dead.run)]
            self.workers = [each for each in self.workers if not any(other.worker is each for other in gone)]
            self.live = [each for each in self.live if each not in gone]


def check(seed: int) -> None:
    chaos = Chaos(seed)
    while chaos.tick < TICKS and chaos.checkpoint.committed < BATCHES - 1:
        chaos.step()
    zombies, chaos.live = chaos.live, []
    last = model.query(chaos.cluster, chaos.checkpoint, "last", BATCHES, model.new_workers("last"))
    model.execute(chaos.cluster, last)
    for _ in range(200):
        for zombie in [each for each in zombies if not each.is_done]:
            zombie.turn(chaos.cluster)
    chaos.cluster.advance(3 * model.TIMEOUT_MS / 1000)
    assert dict(chaos.cluster.rows()) == model.expected(BATCHES), f"seed {seed}"


@pytest.mark.parametrize("start", range(0, 20, 10))
def test_every_row_is_seen_once_whoever_dies_freezes_or_returns(start: int) -> None:
    for seed in range(start, start + 10):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2000, 20))
def test_the_same_two_thousand_times(start: int) -> None:
    for seed in range(start, start + 20):
        check(seed)
