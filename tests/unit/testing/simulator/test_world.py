"""Virtual time ends a run that turns without getting on, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.testing.simulator.world import MOST_EVENTS, LivelockError, World


def turning(world: World, seconds: float, times: int) -> Callable[[], None]:
    """Makes something that happens so many times, so many seconds apart."""
    done = 0

    def turn() -> None:
        nonlocal done
        done += 1
        if done < times:
            world.after(seconds, turn)

    return turn


@pytest.mark.parametrize("seconds", [0.0, 0.9 / MOST_EVENTS])
def test_too_many_events_within_a_second_are_a_livelock(seconds: float) -> None:
    world = World(1)
    world.after(30.0, turning(world, seconds, 3 * MOST_EVENTS))
    with pytest.raises(LivelockError):
        world.run()


def test_a_run_may_last_as_long_as_it_gets_on() -> None:
    world = World(1)
    world.after(0.0, turning(world, 1.1 / MOST_EVENTS, 5 * MOST_EVENTS))
    world.run()
    assert not world.violations
