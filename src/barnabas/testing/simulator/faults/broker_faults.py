"""What goes wrong with the broker's process and its machine."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.testing.simulator.faults.group import FaultGroup
from barnabas.testing.simulator.parts import BrokerParts


class BrokerFaults(FaultGroup[BrokerParts]):
    """What goes wrong with the broker's process and its machine."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {
            "crash": self._crash,
            "die": self._die,
            "power": self._lose_power,
            "stop": self._stop,
            "reboot": self._reboot,
            "freeze broker": self._freeze_broker,
        }

    def _crash(self) -> None:
        broker = self._parts.broker
        if broker.node is not None:
            broker.crash("by the operator")
            self._world.after(self._random.uniform(0.1, 4), broker.start)

    def _die(self) -> None:
        broker = self._parts.broker
        disk = broker.disk
        if broker.node is None or disk.die_after is not None or disk.die_after_roll is not None:
            return
        broker.dies_by_power = "power" in self.chosen and self._random.random() < 0.5
        how = "lose its power" if broker.dies_by_power else "die"
        if self._random.random() < 0.5:
            disk.die_after_roll = self._random.randint(0, 8)
            self._noted(f"the broker will {how} {disk.die_after_roll} changes of the disk after the next new segment")
        else:
            disk.die_after = self._random.randint(0, 30)
            self._noted(f"the broker will {how} after {disk.die_after} changes of the disk")

    def _lose_power(self) -> None:
        broker = self._parts.broker
        if broker.machine_is_up:
            broker.lose_power()
            self._world.after(self._random.uniform(0.5, 6), broker.start)

    def _stop(self) -> None:
        broker = self._parts.broker
        if broker.node is not None:
            broker.stop()
            self._world.after(self._random.uniform(0.1, 3), broker.start)

    def _freeze_broker(self) -> None:
        broker = self._parts.broker
        seconds = self._random.choice((0.2, 2.0, 8.0))
        broker.process.frozen_until = self._world.now + seconds
        self._noted(f"the broker is frozen for {seconds} s")
        self._world.counts["processes frozen"] += 1

    def _reboot(self) -> None:
        """Let the process end just after it has written something, with the answers still on their way."""
        broker = self._parts.broker
        if broker.node is None or broker.ends_unanswered is not None:
            return
        clean = self._random.random() < 0.7
        broker.ends_unanswered = self._random.randint(0, 5), clean
        self._noted(f"the broker will {'stop' if clean else 'die'} with its answers still on their way")

    def heal(self) -> None:
        """See `FaultGroup`."""
        broker = self._parts.broker
        broker.ends_unanswered = None
        broker.process.clock_offset_ms = 0
