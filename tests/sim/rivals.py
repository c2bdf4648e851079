"""A scenario without faults, in which one application that transforms runs three times, with one transactional id."""

from __future__ import annotations

from barnabas.testing.simulator.actors import Application
from barnabas.testing.simulator.patience import PATIENCE
from barnabas.testing.simulator.producing import ProducerActor
from barnabas.testing.simulator.scenario import Scenario


class Rivals(Scenario):
    """Every process shuts the one before out, as zombies do; those that were replaced have to find out and end."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # One partition for each: a process that reads nothing transforms nothing, and never hears that it was replaced.
        self.topics["a"] = 3

    def cast(self) -> None:
        self.faults.kinds.clear()
        self._cast_transformers()
        del self.applications[1:]
        for seconds in (2.0, 5.0):
            self.world.after(seconds, self.applications[0].start)
        self.add(ProducerActor, "producer", topics=self.topics, settings=self._producer_settings(), pace=0.4)

    def _stop(self, applications: list[Application]) -> bool:
        give_up_at = self.world.now + PATIENCE
        while any(not actor.is_over for each in self.applications for actor in each.lives[:-1]):
            if self.world.now > give_up_at:
                self.world.violate("processes that were replaced go on for ever")
                return False
            self.world.sleep(0.5)
        return super()._stop(applications)
