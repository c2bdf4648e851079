"""Controllers on ZooKeeper under the same events, and machines that vanish: who is given up is gone, not cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.silent_machines import SilentMachines
from tests.property.broker.zookeeper.test_controller_histories import EVENTS, History


class SilentHistory(History):
    """A run in which machines vanish, and links between members are cut; who is given up for that, the world checks."""

    @property
    def events(self) -> list[Callable[[Any], None]]:
        return EVENTS + _SILENCES

    def cut(self) -> None:
        one, other = self.random.sample(sorted(self.world.members), 2)
        self.world.cut_link(one, other)

    def isolate(self) -> None:
        """Cut one off from all others, the controller mostly."""
        members = [*(member.id for member in self.world.controllers), self.random.choice(sorted(self.world.members))]
        self.world.isolate(members[0])

    def mend(self) -> None:
        self.world.cut.clear()

    def mend_one(self) -> None:
        if self.world.cut:
            del self.world.cut[self.random.choice(sorted(self.world.cut, key=sorted))]

    def wait(self) -> None:
        """Let time pass, in which those who wait for something see that it does not come."""
        for _ in range(self.random.randint(1, 12)):
            self.world.now += 0.3
            self.world.tick()
            for _ in range(20):
                self.random.choice(self.world.steps())()

    def vanish(self) -> None:
        """End the machine of one: its connections stay."""
        running = self.world.running
        if len(running) > 1:
            member = self.random.choice(running)
            self.world.isolate(member.id)
            member.kill()
            self.expiring.append(member)


_SILENCES: list[Callable[[SilentHistory], None]] = [
    SilentHistory.cut,
    SilentHistory.cut,
    SilentHistory.isolate,
    SilentHistory.mend,
    SilentHistory.mend_one,
    SilentHistory.vanish,
    *[SilentHistory.wait] * 6,
]


# In 424 another controller takes a broker back; in 1226 one is paused that asks a silent machine.
@pytest.mark.parametrize("seed", [*range(3), 424, 1226, 1365, 1660])
def test_silent_machines_are_given_up_and_all_comes_to_its_end(seed: int) -> None:
    SilentHistory(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_silent_machines_are_given_up_in_many_histories(seed: int) -> None:
    SilentHistory(seed).run()


def test_who_is_cut_off_and_gives_others_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(self: SilentMachines[Any], key: Any, _others: object) -> None:
        if key in self._silent:
            self._silent[key].is_backed = True

    monkeypatch.setattr(SilentMachines, "asks", asks)
    with pytest.raises(AssertionError, match="and is cut off"):
        _play_silences(20)


def _play_silences(histories: int) -> None:
    for seed in range(histories):
        SilentHistory(seed).run()
