"""The replicas of a topic on the brokers of a cluster: leaders, ISR, high watermarks, epochs, and who controls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_OF_REPLICAS = events.ReplicaRole | events.IsrChanged | events.ReplicaMoved


class _Partition(NamedTuple):
    """What the newest epoch says."""

    epoch: int = -1
    isr: tuple[str, ...] = ()


class ClusterScene:
    """One topic, by its name."""

    def __init__(self, subject: str) -> None:
        self._topic = subject
        self._partitions: dict[int, _Partition] = {}
        # Broker and partition → role, epoch; high watermark, end offset.
        self._roles: dict[tuple[int, int], tuple[str, int]] = {}
        self._ends: dict[tuple[int, int], tuple[int, int]] = {}
        self._controller = -1
        self._controller_epoch = -1
        self._changes: deque[Box] = deque(maxlen=LAST)
        self._change_count = 0

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the topic."""
        return event.topic if isinstance(event, events.ReplicaRole) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if isinstance(event, events.ControllerChanged):
            return self._apply_controller(event)
        if not isinstance(event, _OF_REPLICAS) or event.topic != self._topic:
            return False
        if isinstance(event, events.ReplicaMoved):
            self._ends[event.broker, event.partition] = event.high_watermark, event.end_offset
        elif isinstance(event, events.IsrChanged):
            self._take_isr(event.partition, event.epoch, event.isr, {})
        else:
            self._apply_role(event)
        return True

    def _apply_controller(self, event: events.ControllerChanged) -> bool:
        # Nodes hear of a change one after the other; that one of them knows none says nothing of the others.
        if event.controller < 0 or event.epoch <= self._controller_epoch:
            return False
        self._controller, self._controller_epoch = event.controller, event.epoch
        return True

    def _apply_role(self, event: events.ReplicaRole) -> None:
        self._roles[event.broker, event.partition] = event.role, event.epoch
        # In one epoch it is the leader whose ISR counts: followers hear of it later.
        if event.epoch > self._known(event.partition).epoch or event.broker == event.leader:
            self._take_isr(event.partition, event.epoch, event.isr, {"leader": event.leader})

    def _take_isr(self, partition: int, epoch: int, isr: str, facts: Facts) -> None:
        known, found = self._known(partition), _Partition(epoch, tuple(filter(None, isr.split(","))))
        if epoch < known.epoch or found == known:
            return
        self._partitions[partition] = found
        kind = "moving" if epoch == known.epoch else "bad" if facts.get("leader") == -1 else "good"
        self._change_count += 1
        label = f"{self._topic}-{partition}"
        facts = {**facts, "leader_epoch": epoch, "isr": isr}
        self._changes.appendleft(Box(f"change {self._change_count}", label, kind, facts))

    def _known(self, partition: int) -> _Partition:
        return self._partitions.get(partition, _Partition())

    def picture(self) -> Picture:
        """See `Scene`."""
        controller = Box("controller", str(self._controller), "good", {"epoch": self._controller_epoch})
        return picture(
            (
                lane("controller", (controller,) if self._controller >= 0 else ()),
                *(
                    lane("replicas", self._replicas(broker), broker=broker)
                    for broker in sorted({broker for broker, _ in self._roles})
                ),
                lane("cluster_changes", self._changes),
            )
        )

    def _replicas(self, broker: int) -> Iterator[Box]:
        for number in sorted(number for at, number in self._roles if at == broker):
            role, epoch = self._roles[broker, number]
            high_watermark, end = self._ends.get((broker, number), (0, 0))
            facts: Facts = {
                "role": role, "leader_epoch": epoch, "high_watermark": high_watermark, "log_end": end,
            }  # fmt: skip
            most = max((ends[1] for (_, at), ends in self._ends.items() if at == number), default=0)
            kind = self._kind(broker, role, epoch, self._known(number))
            yield Box(f"replica {broker}/{number}", f"{self._topic}-{number}", kind, facts, end / most if most else 0.0)

    @staticmethod
    def _kind(broker: int, role: str, epoch: int, known: _Partition) -> str:
        if role == "leader":
            # One that does not know of the newest epoch yet has been deposed.
            return "good" if epoch >= known.epoch else "bad"
        return "done" if str(broker) in known.isr else "retrying"
