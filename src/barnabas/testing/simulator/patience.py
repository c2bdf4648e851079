"""How long the proof waits for those who are slow: as long as they get on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.testing.simulator.world import World

#: How long everything may take to be as it should once the faults are over, in seconds.
PATIENCE = 180.0


class Patience:
    """Is at its end when nothing more was done for `PATIENCE` seconds.

    Members that come and go every few seconds leave a group little time between two rebalances: what it still has to
    read can take longer than that altogether, and nothing is wrong as long as it gets on.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._most = -1
        self._give_up_at = 0.0

    def is_over(self, done: int) -> bool:
        """Look at how much is done; less than before is nothing new, for an answer may have failed to come."""
        if done > self._most:
            self._most = done
            self._give_up_at = self._world.now + PATIENCE
        return self._world.now > self._give_up_at
