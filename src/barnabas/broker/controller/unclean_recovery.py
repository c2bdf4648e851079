"""Who leads when neither ISR nor ELR has a replica that may: the one with the longest log (KIP-966, second part).

None of it is in the log: brokers tell it with each heartbeat, and the next controller hears it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.partition_indexes import TopicIdPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.broker.metadata.replica_log_end import ReplicaLogEnd


class _Report(NamedTuple):
    """What one life of a broker told last; `ends` is None where it does not tell."""

    broker_epoch: int
    ends: dict[TopicIdPartition, ReplicaLogEnd] | None


class UncleanRecovery:
    """Compares the ends of logs.

    A record that was acknowledged is on min.insync.replicas of the replicas, whichever these were, so all replicas are
    heard before one is chosen: fewer may all have lost it. After `timeout` seconds those that were heard do, if who led
    last is among them: without that one nothing is given up. With min.insync.replicas=1 a record may have been on who
    led last alone, and others are waited for only where its log is empty. `broker_epoch(id)` is that of a broker's
    present registration: what an earlier life told may be lost since.
    """

    def __init__(self, timeout: float, broker_epoch: Callable[[int], int | None]) -> None:
        self._timeout = timeout
        self._broker_epoch = broker_epoch
        self._reports: dict[int, _Report] = {}
        self._began: dict[TopicIdPartition, tuple[int, float]] = {}
        self._now = 0.0

    def restart(self, now: float) -> None:
        """Forget what was heard: another controller may have led since."""
        self._reports.clear()
        self._began.clear()
        self._now = now

    def take_in(self, whose: BrokerIdAndEpoch, ends: Iterable[ReplicaLogEnd] | None, now: float) -> bool:
        """Note what a broker's heartbeat tells; gives whether it is another thing than it told before."""
        self._now = max(now, self._now)
        if self._broker_epoch(whose.id) != whose.epoch:
            return False
        found = None if ends is None else {TopicIdPartition(end.topic_id, end.partition): end for end in ends}
        before, self._reports[whose.id] = self._reports.get(whose.id), _Report(whose.epoch, found)
        return bool(found) and before != self._reports[whose.id]

    def pending(self, now: float) -> list[TopicIdPartition]:
        """Return the partitions that wait for a leader, or of which a broker has told."""
        self._now = max(now, self._now)
        told = {whose for report in self._reports.values() for whose in report.ends or ()}
        return sorted(told | self._began.keys())

    def done(self, whose: TopicIdPartition) -> None:
        """Forget since when a partition waits: it has a leader, or is gone."""
        self._began.pop(whose, None)

    def leader(
        self,
        whose: TopicIdPartition,
        partition: PartitionRegistration,
        last: int,
        min_isr: int,
        accepts: Callable[[int], bool],
    ) -> int | None:
        """Return who leads; None while others have to be heard. `last` is who led last."""
        if self.is_silent(last):
            return last if accepts(last) else None
        told = self._ends(whose, partition)
        order = self._longest_first(told, partition.replicas, last)
        is_heard = all(replica in told or self.is_silent(replica) for replica in partition.replicas)
        is_heard = is_heard or (min_isr == 1 and last in told and told[last].end_offset > 0)
        if not (is_heard and order and accepts(order[0])):
            if not self._is_overdue(whose, partition.leader_epoch):
                return None
            if last in partition.replicas and last not in told:
                return None
        return next(filter(accepts, order), None)

    def order(self, whose: TopicIdPartition, partition: PartitionRegistration) -> list[int]:
        """Return the replicas, those with the longest logs first, as far as they have told."""
        found = self._longest_first(self._ends(whose, partition), partition.replicas, partition.replicas[0])
        return [*found, *(replica for replica in partition.replicas if replica not in found)]

    def is_silent(self, replica: int) -> bool:
        """Whether a broker is known not to tell where its logs end."""
        found = self._report(replica)
        return found is not None and found.ends is None

    def _is_overdue(self, whose: TopicIdPartition, leader_epoch: int) -> bool:
        epoch, at = self._began.setdefault(whose, (leader_epoch, self._now))
        if epoch != leader_epoch:
            self._began[whose] = leader_epoch, self._now
            return False
        return self._now - at >= self._timeout

    def _report(self, replica: int) -> _Report | None:
        found = self._reports.get(replica)
        return found if found is not None and found.broker_epoch == self._broker_epoch(replica) else None

    def _ends(self, whose: TopicIdPartition, partition: PartitionRegistration) -> dict[int, ReplicaLogEnd]:
        ends: dict[int, ReplicaLogEnd] = {}
        for replica in partition.replicas:
            report = self._report(replica)
            end = None if report is None or report.ends is None else report.ends.get(whose)
            if end is not None and end.leader_epoch == partition.leader_epoch:
                ends[replica] = end
        return ends

    @staticmethod
    def _longest_first(told: dict[int, ReplicaLogEnd], replicas: Sequence[int], last: int) -> list[int]:
        known = [replica for replica in replicas if replica in told]
        # A longer log of an earlier epoch has what was never committed.
        return sorted(known, key=lambda id: (told[id].last_epoch, told[id].end_offset, id == last), reverse=True)
