"""The persister of share-partitions: what is asked again, in which order, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.share.default_state_persister import DefaultStatePersister
from barnabas.broker.share.persister import SharePartitionKey, StateUpdate
from barnabas.broker.share.state_operation import StateOperation

KEY, OTHER = SharePartitionKey("g", b"t" * 16, 0), SharePartitionKey("g", b"t" * 16, 1)


class Elsewhere:
    """The share coordinator of another broker, which a test plays."""

    def __init__(self) -> None:
        self.asked: list[tuple[StateOperation, Callable[[Any], None]]] = []
        self.now = 100.0
        self.told: list[Any] = []
        self.persister = DefaultStatePersister(self._none_here, self._ask)

    def _none_here(self) -> Any:
        raise AssertionError("this broker coordinates nothing")

    def _ask(self, operation: StateOperation, tell: Callable[[Any], None]) -> bool:
        self.asked.append((operation, tell))
        return True

    @property
    def at(self) -> Instant:
        return Instant(self.now, int(self.now * 1000))

    def write(self, start_offset: int, key: SharePartitionKey = KEY) -> None:
        update = StateUpdate(1, 1, start_offset, 0, ())
        self.persister.write(key, update, self.at, lambda problem: self.told.append((start_offset, problem)))

    def in_flight(self) -> list[int]:
        """The start offsets of the writes that are not answered."""
        return [operation.asked.start_offset for operation, _ in self.asked]  # type: ignore[union-attr]

    def answer(self, result: Any = None) -> None:
        self.asked.pop(0)[1](result)

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self.persister.next_deadline() <= until:
            self.now = max(self.now, self.persister.next_deadline())
            self.persister.tick(self.at)
        self.now = until


@pytest.mark.parametrize(
    "problem",
    [
        errors.NotCoordinatorError(),
        errors.CoordinatorNotAvailableError(),
        errors.CoordinatorLoadInProgressError(),
        errors.DisconnectError(),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_what_may_pass_is_asked_again(problem: errors.KafkaError) -> None:
    world = Elsewhere()
    world.write(5)
    world.answer(problem)
    assert (world.in_flight(), world.told) == ([], [])
    world.advance(1.0)
    assert world.in_flight() == [5]
    world.answer()
    assert world.told == [(5, None)]


@pytest.mark.parametrize(
    "problem",
    [
        errors.FencedStateEpochError(),
        errors.FencedLeaderEpochError(),
        errors.UnknownTopicOrPartitionError(),
        errors.InvalidRequestError(),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_what_will_not_pass_is_told_at_once(problem: errors.KafkaError) -> None:
    world = Elsewhere()
    world.write(5)
    world.answer(problem)
    assert world.told == [(5, problem)]
    world.advance(60)
    assert world.in_flight() == []


def test_a_coordinator_that_does_not_come_back_is_given_up() -> None:
    world = Elsewhere()
    world.write(5)
    for _ in range(60):
        if world.asked:
            world.answer(errors.NotCoordinatorError())
        world.advance(1.0)
    assert [type(problem) for _, problem in world.told] == [errors.NotCoordinatorError]


def test_a_write_that_is_tried_again_is_not_overtaken_by_a_later_one() -> None:
    """Else what was stored last would be the older start offset, and records that were accepted come again."""
    world = Elsewhere()
    world.write(5)
    world.write(9)
    world.write(0, OTHER)
    assert world.in_flight() == [5, 0], "one at a time of each share-partition"
    world.answer(errors.DisconnectError())
    world.answer()
    world.advance(1.0)
    assert world.in_flight() == [5]
    world.answer()
    assert world.in_flight() == [9]
    world.answer()
    assert world.told == [(0, None), (5, None), (9, None)]


def test_many_that_wait_are_answered_without_deep_calls() -> None:
    world = Elsewhere()
    for number in range(5000):
        world.write(number)
    world.persister._ask_other = lambda operation, tell: not tell(None)  # answers at once
    world.answer()
    assert [number for number, _ in world.told] == list(range(5000))


def test_what_is_asked_when_told_comes_after_what_waited() -> None:
    world = Elsewhere()
    update = StateUpdate(1, 1, 1, 0, ())
    world.persister.write(KEY, update, world.at, lambda problem: world.write(3))
    world.write(2)
    for expected in (1, 2, 3):
        assert world.in_flight() == [expected]
        world.answer()
    assert world.persister.next_deadline() == float("inf")
    assert not world.persister._lines, "nothing is kept of what was answered"


def test_several_are_begun_when_all_are_and_fail_with_the_first_error() -> None:
    world = Elsewhere()
    told: list[Any] = []
    world.persister.initialize("g", 3, {b"t" * 16: {0: -1, 1: 7}}, world.at, told.append)
    assert [(one.key.partition, tuple(one.asked)) for one, _ in world.asked] == [(0, (3, -1)), (1, (3, 7))]
    world.answer(errors.FencedStateEpochError())
    assert told == []
    world.answer()
    assert [type(problem) for problem in told] == [errors.FencedStateEpochError]


def test_states_of_a_topic_that_is_gone_are_deleted_already() -> None:
    world = Elsewhere()
    told: list[Any] = []
    world.persister.delete("g", {b"t" * 16: [0]}, world.at, told.append)
    world.answer(errors.UnknownTopicOrPartitionError())
    assert told == [None]
