from __future__ import annotations

from collections.abc import Hashable
from math import inf
from typing import Any

import pytest

from barnabas.broker.purgatory import DelayedOperation, Purgatory


class Waiting(DelayedOperation):
    """Answers `ready` as soon as that is set, "late" at its deadline; counts how often it is asked."""

    __slots__ = ("asked", "cancelled", "ready", "woken")

    def __init__(self, deadline: float = inf, keys: tuple[Hashable, ...] = ()) -> None:
        super().__init__(deadline, keys)
        self.ready: Any = None
        self.asked = 0
        self.woken: list[Hashable] = []
        self.cancelled = False

    def try_complete(self, now: float) -> Any:
        self.asked += 1
        return self.ready

    def on_expiration(self, now: float) -> Any:
        return "late"

    def on_cancel(self) -> None:
        self.cancelled = True

    def woken_by(self, key: Hashable) -> None:
        self.woken.append(key)


@pytest.fixture
def purgatory() -> Purgatory:
    return Purgatory()


@pytest.fixture
def answers() -> list[Any]:
    return []


def test_an_operation_is_answered_when_one_of_its_keys_makes_it_ready(purgatory: Purgatory, answers: list[Any]) -> None:
    operation = Waiting(keys=("a", "b"))
    purgatory.park(operation, answers.append)
    purgatory.mark("b")
    purgatory.complete_marked(1.0)
    assert answers == []
    operation.ready = "done"
    purgatory.mark("a")
    purgatory.complete_marked(2.0)
    assert answers == ["done"]
    assert purgatory.parked == 0


def test_many_marks_of_many_keys_ask_an_operation_once(purgatory: Purgatory, answers: list[Any]) -> None:
    operation = Waiting(keys=tuple(range(100)))
    purgatory.park(operation, answers.append)
    for _ in range(50):
        for key in range(100):
            purgatory.mark(key)
    purgatory.complete_marked(1.0)
    assert operation.asked == 1
    assert sorted(operation.woken) == list(range(100))


def test_marking_a_key_that_nobody_waits_for_leaves_nothing_behind(purgatory: Purgatory) -> None:
    purgatory.mark("nobody")
    assert not purgatory.marked


def test_operations_expire_in_the_order_of_their_deadlines(purgatory: Purgatory, answers: list[Any]) -> None:
    for deadline in (3.0, 1.0, 2.0):
        purgatory.park(Waiting(deadline), lambda message, at=deadline: answers.append((at, message)))
    assert purgatory.next_deadline() == 1.0
    purgatory.tick(2.5)
    assert answers == [(1.0, "late"), (2.0, "late")]
    assert purgatory.next_deadline() == 3.0


def test_an_operation_is_answered_once(purgatory: Purgatory, answers: list[Any]) -> None:
    operation = Waiting(5.0, ("a",))
    operation.ready = "done"
    purgatory.park(operation, answers.append)
    operation.complete("direct")  # type: ignore[arg-type]  # any object stands for a message here
    operation.complete("again")  # type: ignore[arg-type]  # any object stands for a message here
    purgatory.mark("a")
    purgatory.complete_marked(1.0)
    purgatory.tick(10.0)
    assert answers == ["direct"]


def test_an_operation_completed_before_it_is_parked_is_answered_at_once(
    purgatory: Purgatory, answers: list[Any]
) -> None:
    operation = DelayedOperation()
    operation.complete("early")  # type: ignore[arg-type]  # any object stands for a message here
    purgatory.park(operation, answers.append)
    assert answers == ["early"]
    assert purgatory.parked == 0


def test_a_cancelled_operation_is_told_and_never_answered(purgatory: Purgatory, answers: list[Any]) -> None:
    operation = Waiting(5.0, ("a",))
    purgatory.park(operation, answers.append)
    purgatory.cancel(operation)
    purgatory.mark("a")
    purgatory.complete_marked(1.0)
    purgatory.tick(10.0)
    assert operation.cancelled
    assert answers == []
    assert purgatory.next_deadline() == inf


def test_an_answer_that_marks_another_key_wakes_those_who_wait_for_it(purgatory: Purgatory, answers: list[Any]) -> None:
    first, second = Waiting(keys=("a",)), Waiting(keys=("b",))
    first.ready, second.ready = "first", "second"

    def answer_first(message: Any) -> None:
        answers.append(message)
        purgatory.mark("b")

    purgatory.park(first, answer_first)
    purgatory.park(second, answers.append)
    purgatory.mark("a")
    purgatory.complete_marked(1.0)
    assert answers == ["first", "second"]


def test_answered_operations_do_not_pile_up_until_their_deadlines(purgatory: Purgatory, answers: list[Any]) -> None:
    for number in range(10_000):
        operation = Waiting(1e9, (number % 7,))
        operation.ready = number
        purgatory.park(operation, answers.append)
        purgatory.mark(number % 7)
        purgatory.complete_marked(1.0)
    assert len(answers) == 10_000
    assert len(purgatory._heap) < 200
    assert purgatory._watchers == {}


class Failing(Waiting):
    """Raises wherever it is asked."""

    def try_complete(self, now: float) -> Any:
        raise RuntimeError("planted")

    def on_expiration(self, now: float) -> Any:
        raise RuntimeError("planted")


@pytest.mark.parametrize("by", ["key", "deadline"])
def test_an_operation_that_raises_is_failed_and_the_others_are_answered(
    purgatory: Purgatory, answers: list[Any], by: str
) -> None:
    failing, ready = Failing(5.0, ("k",)), Waiting(5.0, ("k",))
    ready.ready = "late"
    failures: list[Exception] = []
    purgatory.park(failing, answers.append, failures.append)
    purgatory.park(ready, answers.append)

    if by == "key":
        purgatory.mark("k")
        purgatory.complete_marked(1.0)
    else:
        purgatory.tick(5.0)

    assert [str(failure) for failure in failures] == ["planted"]
    assert answers == ["late"]
    assert purgatory.parked == 0
    assert purgatory.next_deadline() == inf


def test_a_fault_that_nobody_waits_for_is_reported(purgatory: Purgatory, answers: list[Any]) -> None:
    reported: list[Any] = []
    purgatory.on_fault = lambda operation, problem: reported.append((operation, str(problem)))
    failing = Failing(keys=("k",))
    purgatory.park(failing, answers.append)
    purgatory.mark("k")
    purgatory.complete_marked(1.0)
    assert reported == [(failing, "planted")]
    assert purgatory.parked == 0


def test_what_failed_before_it_was_parked_fails_at_once(purgatory: Purgatory, answers: list[Any]) -> None:
    failures: list[Exception] = []
    operation = Waiting(keys=("k",))
    operation.fail(RuntimeError("planted"))
    purgatory.park(operation, answers.append, failures.append)
    assert [str(failure) for failure in failures] == ["planted"]
    assert (answers, purgatory.parked) == ([], 0)


def test_a_fault_of_who_gets_the_answer_is_given_to_it_and_keeps_nobody_else_waiting(
    purgatory: Purgatory, answers: list[Any]
) -> None:
    def refuse(message: Any) -> None:
        raise RuntimeError("planted")

    failures: list[Exception] = []
    first, second = Waiting(keys=("k",)), Waiting(keys=("k",))
    first.ready = second.ready = "done"
    purgatory.park(first, refuse, failures.append)
    purgatory.park(second, answers.append)
    purgatory.mark("k")
    purgatory.complete_marked(1.0)
    assert [str(failure) for failure in failures] == ["planted"]
    assert answers == ["done"]
