"""Topics that do not keep all that is written: DeleteRecords, retention, compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.errors import KafkaError
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.workloads.writer import OneTopic, Writings, Written

if TYPE_CHECKING:
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.parts import ServedParts

_PATIENCE = 10.0
#: A broker looks for old segments half a minute after its start for the first time.
_FIRST_CHECK = 45.0


class Trimmed:
    """What was asked to be deleted, and what is certain to be, as offsets before which all is to go.

    As in Apache Kafka the new start of a log is in memory, and on the disk a minute later or when the broker stops: a
    broker that was killed, or whose disk failed, may bring the records back.
    """

    def __init__(self, parts: ServedParts) -> None:
        self._parts = parts
        self.asked = 0
        self._acknowledged = 0
        self._losses = 0

    def acknowledge(self, before: int) -> None:
        """Note that the records before an offset are deleted."""
        self._acknowledged, self._losses = max(self.certain, before), self._count_losses()

    @property
    def certain(self) -> int:
        """The offset before which nothing may be there any more."""
        return self._acknowledged if self._losses == self._count_losses() else 0

    def _count_losses(self) -> int:
        if self._parts.replicas > 1:
            # A replica that begins anew learns it from the others, who know.
            return self._parts.servers.lives
        counts = self._parts.world.counts
        if not {"bad disk", "full disk", "bad log"}.isdisjoint(self._parts.fault_kinds):
            return self._parts.servers.lives
        return counts["crashes"] + counts["power losses"]


class Trimmer(Actor):
    """Deletes records now and then, and looks whether they stay deleted."""

    IN_LOOP = 0.5

    def __init__(self, application: Application, number: int, *, writings: Writings, trimmed: Trimmed) -> None:
        super().__init__(application, number)
        self._writings = writings
        self._trimmed = trimmed

    def live(self, life: str) -> None:
        """See `Actor`."""
        admin = self.clients.admin(bootstrap_servers=BOOTSTRAP, client_id=life, request_timeout_ms=4000)
        while not self.is_stopping:
            try:
                (self._trim if self.random.random() < 0.6 else self._look)(admin)
            except KafkaError as problem:
                self.failed("delete records", problem)
            self.pause(2.0)
        admin.close()

    def _trim(self, admin: AdminClient) -> None:
        end, trimmed = self._writings.end(), self._trimmed
        if end <= trimmed.asked:
            return
        before = self.random.randint(trimmed.asked, end)
        trimmed.asked = before
        found = admin.delete_records({self._writings.partition: before}, timeout=_PATIENCE)
        trimmed.acknowledge(before)
        self.world.counts["records deleted on request"] += before
        self._check(found[self._writings.partition], before)

    def _look(self, admin: AdminClient) -> None:
        at_least = self._trimmed.certain
        found = admin.list_offsets({self._writings.partition: OffsetSpec.EARLIEST}, timeout=_PATIENCE)
        self._check(found[self._writings.partition].offset, min(at_least, self._trimmed.certain))

    def _check(self, first: int, at_least: int) -> None:
        if first < at_least:
            self.world.violate(f"{self._writings.partition} begins at {first}; records before {at_least} were deleted")


class TrimmedTopic(OneTopic):
    """An operator deletes records: they are gone for good, and no others."""

    TOPIC = "trimmed"

    def __init__(self, parts: ServedParts) -> None:
        super().__init__(parts)
        self._trimmed = Trimmed(parts)

    def cast(self) -> None:
        """See `Workload`."""
        super().cast()
        if not self.parts.ledger.loses_unflushed:
            self.parts.add(Trimmer, "trimmer", writings=self.writings, trimmed=self._trimmed)

    def check_strictly(self) -> None:
        """See `OneTopic`."""
        trimmed, certain = self._trimmed, self._trimmed.certain
        # All faults are over: what is acknowledged by now survives a stop in good order.
        self.parts.servers.start_again()
        stored = self.writings.read()
        kept = (written for written in self.writings.acknowledged if written.offset >= trimmed.asked)
        self.writings.check_there(stored, kept, f"and only those before {trimmed.asked} were to be deleted")
        back = [offset for offset in stored if offset < certain]
        if back:
            self.world.violate(f"{self.TOPIC} holds offset {back[0]}; before {certain} all was deleted")


class AgedTopic(OneTopic):
    """The oldest segments go as soon as the others hold `retention.bytes`, and no sooner."""

    TOPIC = "aged"
    PACE = 0.2
    RETAINED = 6000
    SETTINGS: ClassVar[dict[str, Any]] = {"log.retention.check.interval.ms": 1000, "log.segment.delete.delay.ms": 500}

    def configs(self) -> dict[str, str]:
        """See `OneTopic`."""
        return {"retention.bytes": str(self.RETAINED), "segment.ms": "700"}

    def _sizes(self) -> list[int]:
        return [segment.size for segment in self.log.local_log.segments]

    def check_strictly(self) -> None:
        """See `OneTopic`."""
        give_up_at = self.world.now + _FIRST_CHECK
        while len(sizes := self._sizes()) > 1 and sum(sizes[1:]) >= self.RETAINED and self.world.now < give_up_at:
            self.world.sleep(1.0)
        start = self.log.log_start_offset
        self.world.counts["records gone by retention"] += start
        if start and sum(sizes) < self.RETAINED:
            self.world.violate(f"retention left {sum(sizes)} bytes of {self.TOPIC}, retention.bytes is {self.RETAINED}")
        if len(sizes) > 1 and sum(sizes[1:]) >= self.RETAINED:
            self.world.violate(f"{self.TOPIC} keeps {sizes} bytes in segments, retention.bytes is {self.RETAINED}")
        kept = (written for written in self.writings.acknowledged if written.offset >= start)
        self.writings.check_there(self.writings.read(), kept, f"and the log begins at {start}")


class KeyedTopic(OneTopic):
    """A compacted topic: the last record of each key stays, and what a tombstone deleted does not come back."""

    TOPIC = "keyed"
    KEYS = 6
    PACE = 0.2
    SETTINGS: ClassVar[dict[str, Any]] = {"log.cleaner.backoff.ms": 300, "log.segment.delete.delay.ms": 500}

    def configs(self) -> dict[str, str]:
        """See `OneTopic`."""
        # A replica that is away until a tombstone is gone never hears of it, in Apache Kafka neither.
        retention = self.random.choice(("0", "86400000") if self.parts.replicas == 1 else ("86400000",))
        self._keeps_tombstones = retention != "0"
        return {
            "cleanup.policy": "compact",
            "segment.ms": "600",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": retention,
        }

    def check_strictly(self) -> None:
        """See `OneTopic`."""
        stored = self.writings.read()
        for offset, written in stored.items():
            if written.is_acknowledged and written.offset != offset:
                self.world.violate(f"record {written.number} of {self.TOPIC} is at {offset}, not at {written.offset}")
        last: dict[bytes | None, Written] = {}
        for written in sorted(self.writings.acknowledged, key=lambda one: one.offset):
            last[written.key] = written
        there: dict[bytes | None, int] = {}
        for offset, written in sorted(stored.items()):
            there[written.key] = offset
        self.world.counts["records compacted away"] += sum(1 for _ in self.writings.acknowledged) - len(stored)
        for key, written in last.items():
            self._check_key(key, written, there.get(key))

    def _check_key(self, key: bytes | None, last: Written, found: int | None) -> None:
        may_be_gone = last.value is None and not self._keeps_tombstones
        if found is None and not may_be_gone:
            self.world.violate(f"the last record of key {key!r}, at {last.offset} of {self.TOPIC}, is gone")
        elif found is not None and found < last.offset:
            what = "deleted by a tombstone" if last.value is None else "written again"
            self.world.violate(f"{self.TOPIC} ends with {found} of key {key!r}, which was {what} at {last.offset}")
