"""A driver that was thought dead, or a repair, comes back while another run of the query is at its first batch.

Spark asks the sink for nothing before the tasks of a run's first batch begin, so until its commit nothing shows the
others that there is such a run.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from barnabas.errors import KafkaError
from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once.decision import TransactionsLostError
from barnabas.spark.exactly_once.repair import repair
from tests.unit.spark.exactly_once import exactly_once_model as model

BATCHES, TASKS = 3, 3


class Handle:
    """A process that sends one request a turn."""

    def __init__(self, requests: model.Requests) -> None:
        self._requests = requests
        self.failed: KafkaError | None = None
        self.is_done = False
        self._pending = self._sent(lambda: next(requests))

    def _sent(self, go: Callable[[], Any]) -> Any:
        try:
            return go()
        except (StopIteration, KafkaError) as ended:
            self.is_done = True
            self.failed = ended if isinstance(ended, KafkaError) else None

    def turns(self, cluster: model.Cluster, most: int = 10_000) -> int:
        """Take so many, or all that are left; returns how many were taken."""
        for taken in range(most):
            if self.is_done:
                return taken
            answer = cluster.advance(0.02) if self._pending is None else cluster.request(*self._pending)
            self._pending = self._sent(lambda answer=answer: self._requests.send(answer))
        return most


def attempts(cluster: model.Cluster, run: str, batch: int) -> list[protocol.TaskReport]:
    """All tasks of a batch; each leaves a transaction open."""
    reports: list[protocol.TaskReport] = []

    def tasks() -> model.Requests:
        for partition, worker in enumerate(model.new_workers(run, TASKS)):
            reports.append((yield from model.attempt(cluster, worker, run, batch, partition)))

    model.execute(cluster, tasks())
    return reports


def commit(cluster: model.Cluster, batch: int, reports: list[protocol.TaskReport]) -> model.Requests:
    """A run's commit, and what Spark does where that fails."""
    driver = model.DriverPerformer(cluster)
    try:
        yield from model.drive(protocol.commit_batch(batch, reports), driver)
    except KafkaError:
        yield from model.drive(protocol.abort_batch(reports), driver)
        raise


class World:
    """The next run has written all rows of its first batch, `batch`; those before it are decided.

    `after` is its commit. `other` is a repair where `repairs`, else the commit of a driver that has also written the
    batch before.
    """

    def __init__(self, batch: int, *, repairs: bool) -> None:
        self.cluster, self.checkpoint = model.Cluster(), model.Checkpoint()
        late = [] if repairs else attempts(self.cluster, "r1", batch - 1)
        model.execute(self.cluster, model.query(self.cluster, self.checkpoint, "r2", batch, model.new_workers("r2")))
        self.batch = batch
        self.after = Handle(commit(self.cluster, batch, attempts(self.cluster, "r3", batch)))
        driver = model.DriverPerformer(self.cluster)
        self.other = Handle(
            model.drive(repair(model.QUERY, None), driver) if repairs else commit(self.cluster, batch - 1, late)
        )

    def problem(self, *turns: int) -> str:
        """Let the two take so many turns in turn, the other one first, and then all that are left."""
        for number, most in enumerate(turns):
            (self.after if number % 2 else self.other).turns(self.cluster, most)
        self.other.turns(self.cluster)
        self.after.turns(self.cluster)
        if isinstance(self.after.failed, TransactionsLostError):
            return "a decided batch is told as lost"
        if self.after.failed is None:
            self.checkpoint.commit(self.batch)
        last = model.query(self.cluster, self.checkpoint, "last", BATCHES, model.new_workers("last"))
        model.execute(self.cluster, last)
        return "" if dict(self.cluster.rows()) == model.expected(BATCHES) else "rows are missing, or there twice"


#: The batch that the next run begins with, and who comes back.
CASES = {
    "a driver that repeats the batch before": (1, False),
    "a repair": (1, True),
    "a repair before any batch was decided": (0, True),
}


def lengths(batch: int, repairs: bool) -> tuple[int, int]:
    """How many requests the other one and the next run's commit send, where they do not meet."""
    world = World(batch, repairs=repairs)
    return world.other.turns(world.cluster), World(batch, repairs=repairs).after.turns(world.cluster)


@pytest.mark.parametrize("case", CASES)
def test_whoever_comes_back_aborts_nothing_that_the_next_run_decides(case: str) -> None:
    """In all orders in which each of the two is interrupted once."""
    batch, repairs = CASES[case]
    others, afters = lengths(batch, repairs)
    found = {
        (at, turns): problem
        for at in range(others + 1)
        for turns in range(afters + 1)
        if (problem := World(batch, repairs=repairs).problem(at, turns))
    }
    assert found == {}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("part", range(10))
def test_the_same_where_each_is_interrupted_again_and_again(case: str, part: int) -> None:
    batch, repairs = CASES[case]
    for seed in range(part * 100, part * 100 + 100):
        choose = random.Random(seed)
        turns = [choose.randint(0, 6) for _ in range(choose.randint(3, 10))]
        assert World(batch, repairs=repairs).problem(*turns) == "", turns


def listing_anew(decision: Any, query: str) -> Any:
    """It aborts all that is open when it has finished what another driver decided, whoever has begun it."""
    open_now = yield protocol.ListOpen()
    done = yield from protocol.finish(decision, query)
    strangers = yield from protocol.identified(set(open_now) - {task.transactional_id for task in decision.tasks})
    if strangers:
        yield protocol.Record(done)
        yield protocol.EndAll(strangers, commit=False)
    return done


def telling_nobody(query: str, choice: Any) -> Any:
    """A repair that aborts what is open without a word in the decision log."""
    yield protocol.TakeOver("repair")
    open_now = yield protocol.ListOpen()
    yield protocol.EndAll((yield from protocol.identified(set(open_now))), commit=False)


def trusting_the_list(batch: int, written: Any, aborted: Any) -> Any:
    return (yield from _STRANGERS(batch, written, ()))


_STRANGERS = protocol._strangers
_HERE = sys.modules[__name__]
MUTATIONS: dict[str, tuple[str, Any, str, Any]] = {
    "what is open is listed anew": (
        "a driver that repeats the batch before", protocol, "_finish_and_abort_strangers", listing_anew,
    ),
    "a repair tells nobody": ("a repair", _HERE, "repair", telling_nobody),
    "nobody looks for what a repair aborts": ("a repair", protocol, "_strangers", trusting_the_list),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_protocol_without_one_of_its_rules_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, place, attribute, mutated = MUTATIONS[name]
    batch, repairs = CASES[case]
    monkeypatch.setattr(place, attribute, mutated)
    others, afters = lengths(batch, repairs)
    orders = ((at, turns) for at in range(others, -1, -1) for turns in range(afters + 1))
    assert any(World(batch, repairs=repairs).problem(*each) == "a decided batch is told as lost" for each in orders)
