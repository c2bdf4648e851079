"""The proof gives those up who stand still, and waits for those who are slow."""

from __future__ import annotations

from barnabas.testing.simulator.patience import PATIENCE, Patience
from barnabas.testing.simulator.world import World


def waited(world: World, *done: int) -> list[bool]:
    """Whether patience is over, asked every minute."""
    patience = Patience(world)
    asked = []
    for amount in done:
        asked.append(patience.is_over(amount))
        world.now += PATIENCE / 3
    return asked


def test_who_gets_on_may_take_as_long_as_it_takes() -> None:
    assert not any(waited(World(1), *range(100)))
    assert not any(waited(World(1), 0, 0, 0, 1, 1, 1, 2, 2, 2, 3))


def test_who_stands_still_is_given_up() -> None:
    assert waited(World(1), 5, 5, 5, 5, 5) == [False, False, False, False, True]


def test_an_answer_that_fails_to_come_is_no_progress() -> None:
    assert waited(World(1), 5, 0, 5, 0, 5, 0)[-1]
