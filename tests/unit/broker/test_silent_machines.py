"""Which machines are gone, by their silence; one rule a test."""

from __future__ import annotations

import pytest

from barnabas.broker.silent_machines import Silence, SilentMachines


@pytest.mark.parametrize(
    ("configured", "session", "found"),
    [
        (-1, 9.0, Silence(2.25, 0.5625)),
        (-1, 18.0, Silence(4.5, 1.0)),
        (-1, 2.0, Silence(0.5, 0.125)),
        (600, 9.0, Silence(0.6, 0.15)),
        (100, 9.0, Silence(0.1, 0.1)),
        (0, 9.0, None),
    ],
)
def test_silence_is_a_quarter_of_the_session_unless_it_is_set(
    configured: int, session: float, found: Silence | None
) -> None:
    assert Silence.of(configured, session) == found


def test_where_machines_may_be_silent_a_connection_may_take_a_second() -> None:
    assert Silence.patience_of(None) == 1.0
    assert Silence.patience_of(Silence(2.25, 0.5625)) == 0.5625


@pytest.mark.parametrize("session", [2.0, 6.0, 9.0, 18.0])
def test_what_it_takes_altogether_is_less_than_half_a_session(session: float) -> None:
    silence = Silence.of(-1, session)
    assert silence is not None
    assert silence.longest + 2 * silence.patience + 0.05 < session / 2


def asked(machines: SilentMachines[str], now: float, others: list[str]) -> None:
    """One attempt to reach `x` that comes to nothing, a second later."""
    machines.asks("x", others)
    machines.came_to_nothing("x", now + 1)


def test_two_attempts_that_come_to_nothing_while_another_is_heard() -> None:
    machines = SilentMachines[str]()
    asked(machines, 0.0, ["a"])
    assert machines.is_silent("x")
    machines.heard("a", 1.01)
    assert not machines.is_gone("x")
    asked(machines, 1.05, ["a"])
    assert machines.is_gone("x")


def test_any_sign_of_life_between_voids_them() -> None:
    machines = SilentMachines[str]()
    asked(machines, 0.0, ["a"])
    machines.heard("x", 1.02)
    machines.heard("a", 1.02)
    asked(machines, 1.05, ["a"])
    assert not machines.is_gone("x")


@pytest.mark.parametrize(("heard", "is_gone"), [([], False), (["a"], False), (["a", "b"], True)])
def test_half_of_all_have_to_be_heard(heard: list[str], is_gone: bool) -> None:
    machines, others = SilentMachines[str](), ["a", "b", "c"]
    asked(machines, 0.0, others)
    for other in heard:
        machines.heard(other, 1.01)
    asked(machines, 1.05, others)
    assert machines.is_gone("x") is is_gone


def test_the_only_one_is_never_gone() -> None:
    machines = SilentMachines[str]()
    for now in range(10):
        asked(machines, now, [])
    assert not machines.is_gone("x")


def test_who_was_heard_before_the_silence_or_after_the_last_attempt_began_does_not_count() -> None:
    """This machine may be cut off since, or have been cut off until then."""
    machines = SilentMachines[str]()
    machines.heard("a", 0.0)
    asked(machines, 0.0, ["a"])
    asked(machines, 1.05, ["a"])
    machines.heard("a", 2.06)
    assert not machines.is_gone("x")


def test_who_is_silent_as_well_does_not_count() -> None:
    machines = SilentMachines[str]()
    machines.came_to_nothing("x", 1.0)
    machines.heard("a", 1.01)
    machines.came_to_nothing("a", 1.02)
    asked(machines, 1.05, ["a"])
    assert not machines.is_gone("x")


def test_the_others_have_ever_longer_to_answer() -> None:
    machines = SilentMachines[str]()
    assert [machines.came_to_nothing("x", now) for now in range(7)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_another_life_begins_without_a_past() -> None:
    machines = SilentMachines[str]()
    machines.came_to_nothing("x", 1.0)
    machines.forget("x")
    machines.heard("a", 1.01)
    asked(machines, 1.05, ["a"])
    assert not machines.is_gone("x")
