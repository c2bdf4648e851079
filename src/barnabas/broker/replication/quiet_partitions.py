"""The partitions of a follower's fetch session in which nothing happens: a Fetch need not look at them.

A follower that follows 2,000 partitions asks for all of them with each Fetch, by its session. Those are quiet in which
all is committed, and the follower has every record, knows the high watermark and the start of the log, and is in sync:
they are watched, and looked at again when something happens to them. That they were asked for counts all the same:
`last_fetch_ms` is when the follower had all of them, which `Replica` takes for the time at which it was caught up.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.replication.partition_state import CommittedPartitionState

if TYPE_CHECKING:
    from collections.abc import Hashable

    from barnabas.broker.fetch_target import FetchingReplica, FetchKey, FetchTarget, PartitionRead
    from barnabas.broker.partition import Partition
    from barnabas.broker.purgatory import Purgatory
    from barnabas.broker.replication.replica import Replica


class QuietPartitions(DelayedOperation):
    """Those of one session; a Fetch that waits is parked under it as its key, for quiet partitions that grow.

    `active` are the others, in the order in which they are read. It is never answered itself: it only watches.
    """

    __slots__ = ("_broker_epoch", "_broker_id", "_grown", "_purgatory", "_quiet", "_watched", "active", "last_fetch_ms")

    def __init__(self, purgatory: Purgatory, replica: FetchingReplica, targets: OrderedDict[FetchKey, FetchTarget]):
        super().__init__()
        self.active: OrderedDict[FetchKey, FetchTarget] = OrderedDict(targets)
        self.last_fetch_ms = replica.now_ms
        self._purgatory = purgatory
        self._broker_id = replica.broker_id
        self._broker_epoch = replica.broker_epoch
        self._watched: dict[Hashable, FetchTarget] = {}
        self._quiet: dict[FetchTarget, None] = {}
        self._grown: dict[FetchTarget, None] = {}

    def __len__(self) -> int:
        """How many partitions are quiet, with those that were roused since the last Fetch."""
        return len(self._quiet)

    # -- a Fetch -----------------------------------------------------------------------------------------------------

    def begin(self, replica: FetchingReplica) -> None:
        """Take note of a Fetch: all are active for it when the follower is in another life."""
        if replica.broker_epoch != self._broker_epoch:
            for target in self._quiet:
                self.rouse(target)
        self._broker_epoch = replica.broker_epoch
        self.last_fetch_ms = replica.now_ms
        self._grown.clear()

    def took(self, read: PartitionRead) -> None:
        """Take note of what was found in an active partition, and is about to be told."""
        target = read.target
        if _is_quiet(read, self._broker_id):
            self.active.pop((target.topic, target.index), None)
            self._watch(target)
        else:
            self.forget(target)

    def rouse(self, target: FetchTarget) -> None:
        """Have the next read look at a partition."""
        self.active[(target.topic, target.index)] = target
        replica = self._replica(target)
        if replica is not None:
            replica.end_quiet(self)

    def forget(self, target: FetchTarget) -> None:
        """Watch a partition no more."""
        partition = target.partition
        if partition is None or partition not in self._watched:
            return
        for key in (partition, partition.log_end):
            self._watched.pop(key, None)
            self._purgatory.unwatch(key, self)
        del self._quiet[target]
        replica = self._replica(target)
        if replica is not None:
            replica.end_quiet(self)

    def close(self) -> None:
        """Watch nothing more: the session has ended."""
        for target in list(self._quiet):
            self.forget(target)

    def _watch(self, target: FetchTarget) -> None:
        partition = target.partition
        assert partition is not None, "it was read"
        target.appended = partition.appended
        if partition not in self._watched:
            for key in (partition, partition.log_end):
                self._watched[key] = target
                self._purgatory.watch(key, self)
            self._quiet[target] = None
        replica = self._replica(target)
        if replica is not None:
            replica.begin_quiet(self)

    def _replica(self, target: FetchTarget) -> Replica | None:
        partition = target.partition
        if partition is None or partition.in_sync is None:
            return None
        return partition.in_sync.replicas.get(self._broker_id)

    # -- what happens to partitions ----------------------------------------------------------------------------------

    def woken_by(self, key: Hashable) -> None:
        """See DelayedOperation: one has grown, or its role, high watermark or start has changed."""
        target = self._watched.get(key)
        if target is None:
            return
        self.rouse(target)
        if target.partition is not key:
            self._grown[target] = None
            self._purgatory.mark(self)

    def take_grown(self) -> list[FetchTarget]:
        """Return those that have grown, or changed their role, since the last call or Fetch."""
        found = list(self._grown)
        self._grown.clear()
        return found


def _is_quiet(read: PartitionRead, broker_id: int) -> bool:
    """Whether the follower has all, knows all and is in sync, once it has been told what was read."""
    target = read.target
    partition: Partition | None = target.partition
    if partition is None or partition.deleted or read.error_code or read.diverging is not None or len(read.records):
        return False
    log, in_sync = partition.log, partition.in_sync
    return (
        in_sync is not None
        and isinstance(in_sync.state, CommittedPartitionState)
        and broker_id in in_sync.state.isr
        and target.offset == log.log_end_offset
        and read.high_watermark == log.high_watermark == log.log_end_offset
        and target.high_watermark in (-1, read.high_watermark)
        and read.log_start_offset == log.log_start_offset
    )
