"""What goes wrong with the broker's disk."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.testing.simulator.disk import OPERATIONS
from barnabas.testing.simulator.faults.group import FaultGroup
from barnabas.testing.simulator.parts import BrokerParts

#: At what rates changes of the metadata fail.
METADATA_ERRORS = (0.0, 0.3, 1.0)


class DiskFaults(FaultGroup[BrokerParts]):
    """What goes wrong with the broker's disk."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {
            "full disk": self._fill_disk,
            "slow disk": self._slow_disk,
            "bad disk": self._spoil_disk,
            "bad log": self._spoil_log,
            "bad metadata": self._spoil_metadata,
        }

    def _fill_disk(self) -> None:
        disk = self._parts.broker.disk
        disk.leave_room(self._random.choice((0, 200, 5000)))
        self._noted("the disk is full")
        self._world.counts["times of a full disk"] += 1
        self._world.after(self._random.uniform(0.2, 5), self._empty_disk)

    def _empty_disk(self) -> None:
        self._parts.broker.disk.capacity = None
        self._noted("the disk has room")

    def _slow_disk(self) -> None:
        disk = self._parts.broker.disk
        disk.slowness = self._random.choice((0.001, 0.02, 0.2))
        self._noted("the disk is slow")
        self._world.counts["times of a slow disk"] += 1
        self._world.after(self._random.uniform(0.5, 5), self._fast_disk)

    def _fast_disk(self) -> None:
        self._parts.broker.disk.slowness = 0.0

    def _spoil_disk(self) -> None:
        """Let operations of some kinds fail now and then, or all of them for a while."""
        disk = self._parts.broker.disk
        random = self._random
        which = random.choice(
            ("append", "sync", "sync", "read", "read", "index", "checkpoint", "rename", "rename", "all")
        )
        disk.failing = frozenset(OPERATIONS if which == "all" else (which,))
        disk.errors = random.choice((0.1, 0.4, 1.0))
        self._noted(f"{disk.errors:.0%} of these operations of the disk fail: {', '.join(sorted(disk.failing))}")
        self._world.counts["times of a bad disk"] += 1
        self._world.after(random.uniform(0.5, 4), self._mend_disk)

    def _mend_disk(self) -> None:
        self._parts.broker.disk.errors = 0.0

    def _spoil_metadata(self) -> None:
        """Let the store of the metadata fail, or be slow."""
        store = self._parts.broker.store
        random = self._random
        store.errors = random.choice(METADATA_ERRORS)
        store.slowness = random.choice((0.0, 0.05, 0.5))
        self._noted(f"{store.errors:.0%} of the changes of the metadata fail, and take up to {store.slowness} s")
        self._world.counts["times of a bad metadata store"] += 1
        self._world.after(random.uniform(0.5, 5), self._mend_metadata)

    def _mend_metadata(self) -> None:
        store = self._parts.broker.store
        store.errors = store.slowness = 0.0

    def _spoil_log(self) -> None:
        """Let nothing be written to one log, one with an open transaction if there is any: its marker has to wait."""
        broker = self._parts.broker
        logs = list(broker.node.logs.logs.values()) if broker.node is not None else []
        if not logs or broker.disk.bad_directory:
            return
        log = self._random.choice([log for log in logs if log.last_stable_offset < log.high_watermark] or logs)
        broker.disk.bad_directory = log.directory
        self._noted(f"nothing can be written to {log.directory}")
        self._world.counts["times of a bad log"] += 1
        self._world.after(self._random.uniform(0.5, 5), self._mend_log)

    def _mend_log(self) -> None:
        self._parts.broker.disk.bad_directory = ""

    def heal(self) -> None:
        """See `FaultGroup`."""
        disk = self._parts.broker.disk
        disk.slowness = disk.errors = 0.0
        disk.bad_directory = ""
        disk.capacity = disk.die_after = disk.die_after_roll = None
        self._mend_metadata()
