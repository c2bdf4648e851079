"""Sweep: a look at all ids in every interval, in pieces."""

from __future__ import annotations

from math import inf

from barnabas.broker.coordinator.expiry_sweep import Sweep
from barnabas.broker.instant import Instant


def at(now: float) -> Instant:
    return Instant(now, 0)


def test_each_interval_every_id_is_looked_at_once_in_pieces_of_the_budget() -> None:
    ids = {"a": 1, "b": 2, "c": 3}
    looks: list[list[str]] = []
    sweep = Sweep(10_000, lambda: ids, lambda piece, _: looks.append(list(piece)))
    assert sweep.next_deadline() == inf
    sweep.schedule(at(0))
    sweep.step(2, at(9))
    assert (looks, sweep.next_deadline()) == ([], 10)

    sweep.step(2, at(10))
    assert (looks, sweep.next_deadline()) == ([["a", "b"]], -inf)
    ids["d"] = 4
    sweep.step(2, at(10))
    assert (looks, sweep.next_deadline()) == ([["a", "b"], ["c"]], 20)

    sweep.step(9, at(20))
    assert looks[2:] == [["a", "b", "c", "d"]]


def test_a_sweep_that_takes_longer_than_its_interval_is_not_doubled() -> None:
    looks: list[str] = []
    sweep = Sweep(1000, lambda: ("a", "b", "c"), lambda piece, _: looks.extend(piece))
    sweep.schedule(at(0))
    for now in (1, 2, 3):
        sweep.step(1, at(now))

    assert looks == ["a", "b", "c"]
