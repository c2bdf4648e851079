"""Reading partitions for a Fetch, now or as soon as there is enough."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.fetch_target import FetchingReplica, FetchTarget, PartitionRead
from barnabas.broker.log.cold_range import ColdRange, cold_ranges
from barnabas.broker.log.fetch_data_info import FetchDataInfo
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.replication.awaited_followers import FetchesOf
from barnabas.broker.replication.replica import FollowerFetch
from barnabas.broker.replication.replica_selector import LEADER, RackAwareReplicaSelector
from barnabas.protocol.kinds import IsolationLevel

if TYPE_CHECKING:
    from collections.abc import Hashable

    from barnabas.broker.partition import Partition
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.replication.quiet_partitions import QuietPartitions
    from barnabas.broker.replication.replication_quota import ReplicationQuota
    from barnabas.protocol.messages.fetch_response import FetchResponse

NO_RECORDS = b""
_NOTHING = FetchDataInfo(NO_RECORDS, 0, None)
_NO_OFFSET = -1


class FetchLimits(NamedTuple):
    """How much a Fetch wants: at least `min_bytes` in all, at most `max_bytes`; `isolation` as in the log's read.

    `replica` is the follower that asks, None for a consumer. One of an old version may read from the leader only; one
    with a rack is sent where `selector` says. `quota` is that of throttled followers, if there is one, and
    `allowance` how many bytes it leaves them now.
    """

    min_bytes: int
    max_bytes: int
    isolation: int
    replica: FetchingReplica | None = None
    only_leader: bool = False
    selector: RackAwareReplicaSelector | None = None
    quota: ReplicationQuota | None = None
    allowance: float = inf


class Fetched:
    """One round of reading: the partitions in order, how many bytes came, and whether an answer is due at once.

    `available` counts the bytes of cut batches, too: they are not sent, and yet a client that wants so many at least
    does not wait for more. `cold` is what was not read, because it would have had to wait for the disk. `lags` says
    that a follower lacks nothing but a high watermark.
    """

    __slots__ = ("available", "cold", "lags", "reads", "size", "urgent")

    def __init__(self) -> None:
        self.cold: list[ColdRange] = []
        self.reads: list[PartitionRead] = []
        self.available = 0
        self.size = 0
        self.urgent = self.lags = False


def read_targets(
    manager: ReplicaManager, targets: Collection[FetchTarget], limits: FetchLimits, room: int, *, only_cached: bool
) -> Fetched:
    """Read every target, until `max_bytes` are there, or `room` bytes; with `only_cached` leave out what is cold.

    The first batch of the first partition that has any is read even if it is larger than all limits: else a consumer
    could never get past it (KIP-74).
    """
    fetched = Fetched()
    left = min(limits.max_bytes, room)
    allowance = None if limits.quota is None else _Allowance(limits)
    for target in targets:
        try:
            if only_cached and left > 0:
                cold = _cold_ranges(manager, target, min(left, target.max_bytes))
                if cold:
                    fetched.cold += cold
                    left = max(0, left - sum(one.size for one in cold))
                    continue
            read = _read(manager, target, left, limits, allowance, min_one_message=fetched.size == 0)
        except errors.KafkaError as problem:
            read = PartitionRead(target, problem.code, -1, -1, -1, NO_RECORDS, 0, None, None)
        size = len(read.records)
        fetched.size += size
        fetched.available += read.available
        left = max(0, left - size)
        fetched.urgent |= read.error_code != 0 or read.diverging is not None
        fetched.lags |= _lags(read, limits)
        fetched.urgent |= read.preferred != LEADER
        fetched.reads.append(read)
    return fetched


def _lags(read: PartitionRead, limits: FetchLimits) -> bool:
    """Whether a follower has told that it knows a lower high watermark: it need not wait long for records (KIP-1166).

    What it lacks records for does not count, for it cannot take that over: one that is throttled would never wait.
    """
    target = read.target
    return limits.replica is not None and 0 <= target.high_watermark < min(read.high_watermark, target.offset)


class _Allowance:
    """What throttled replicas may still get of one round of reading; the last batch may be more than that."""

    __slots__ = ("_left", "_limits")

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._left = limits.allowance

    def of(self, partition: Partition) -> float:
        """Return how many bytes of a partition may be read: infinite unless it is throttled."""
        quota, replica = self._limits.quota, self._limits.replica
        if quota is None or replica is None or not is_throttled(partition, replica.broker_id, quota):
            return inf
        return self._left

    def used(self, size: int) -> None:
        """Count what was read of a throttled partition."""
        self._left -= size


def _read(
    manager: ReplicaManager,
    target: FetchTarget,
    left: int,
    limits: FetchLimits,
    allowance: _Allowance | None,
    *,
    min_one_message: bool,
) -> PartitionRead:
    partition = _partition_of(manager, target)
    if target.leader_epoch != -1:
        partition.check_leader_epoch(target.leader_epoch)
    replica = limits.replica
    if replica is not None:
        partition.check_follower(replica.broker_id, target.leader_epoch)
    elif not partition.is_leader and (limits.only_leader or partition.leader_id < 0):
        partition.check_leader()
    log = partition.log
    diverging = None
    if target.last_fetched_epoch >= 0:
        diverging = _divergence(partition, target)
    found = _NOTHING
    if limits.selector is not None and diverging is None:
        preferred = limits.selector.select(partition, target.offset)
        if preferred != LEADER:
            return _redirected(partition, target, preferred)
    # At the end of the log there is nothing to read, which is what most polls of most partitions find.
    if target.offset != log.log_end_offset and diverging is None:
        limit, allowed = min(left, target.max_bytes), inf if allowance is None else allowance.of(partition)
        if allowance is not None and allowed != inf:
            # A batch that is larger than the allowance would never be sent.
            limit, min_one_message = int(min(limit, max(allowed, 0))), left > 0
        if allowed >= 0:
            found = log.read(
                target.offset, limit, min_one_message=min_one_message, isolation=limits.isolation, to_send=True
            )
        if allowance is not None and allowed != inf:
            allowance.used(len(found.records))
    if replica is not None and diverging is None:
        fetch = FollowerFetch(target.offset, target.log_start_offset, replica.broker_epoch)
        manager.follower_fetched(partition, replica.broker_id, fetch, replica.now_ms)
    return PartitionRead(
        target,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        found.records,
        found.available,
        found.aborted_transactions,
        diverging,
    )


def _redirected(partition: Partition, target: FetchTarget, preferred: int) -> PartitionRead:
    log = partition.log
    marks = log.high_watermark, log.last_stable_offset, log.log_start_offset
    return PartitionRead(target, 0, *marks, NO_RECORDS, 0, None, None, preferred)


def is_throttled(partition: Partition, follower: int, quota: ReplicationQuota) -> bool:
    """Whether what a follower is sent counts against the quota: it is not in sync, and the replica is throttled."""
    in_sync = partition.in_sync
    if in_sync is None or follower in in_sync.state.isr:
        return False
    return quota.is_throttled(partition.topic, partition.index)


def _cold_ranges(manager: ReplicaManager, target: FetchTarget, limit: int) -> list[ColdRange]:
    partition = _partition_of(manager, target)
    if target.offset == partition.log.log_end_offset:
        return []
    try:
        return cold_ranges(partition.log, target.offset, limit)
    except OSError:
        # The read meets it, too, and says what it was.
        return []


def _partition_of(manager: ReplicaManager, target: FetchTarget) -> Partition:
    partition = target.partition
    if partition is not None and not partition.deleted:
        return partition
    partition = target.partition = manager.find(target.topic, target.index)
    return partition


def _divergence(partition: Partition, target: FetchTarget) -> tuple[int, int] | None:
    if target.last_fetched_epoch > partition.leader_epoch:
        raise errors.UnknownLeaderEpochError("The last fetched epoch is newer than the leader's.")
    epoch, end_offset = partition.end_offset_for_epoch(target.last_fetched_epoch)
    if end_offset == _NO_OFFSET or epoch == -1:
        raise errors.OffsetOutOfRangeError("Nothing is known of the last fetched epoch.")
    if epoch < target.last_fetched_epoch or end_offset < target.offset:
        return epoch, end_offset
    return None


class DelayedFetch(DelayedOperation):
    """A Fetch that waits until `min_bytes` have come together or its time is over.

    It counts what becomes readable in its partitions rather than reading them at every wake-up, so that many small
    appends cost it little; it reads once, for the answer.
    """

    __slots__ = ("_available", "_finish", "_is_called", "_limits", "_quiet", "_read", "_seen", "_targets", "_woken")

    def __init__(
        self,
        targets: Collection[FetchTarget],
        limits: FetchLimits,
        available: int,
        deadline: float,
        read: Callable[[], Fetched],
        finish: Callable[[Fetched, float], FetchResponse],
        *,
        quiet: QuietPartitions | None = None,
    ):
        follows = limits.replica is not None
        seen = {}
        for target in targets:
            partition = target.partition
            if partition is not None:
                key = partition.log_end if follows else partition
                seen[key] = (partition, partition.leader_epoch, _size(partition, limits), target)
        keys: list[Hashable] = [*seen]
        if quiet is not None:
            keys.append(quiet)
        if limits.replica is not None:
            keys.append(FetchesOf(limits.replica.broker_id))
        super().__init__(deadline, tuple(keys))
        #: Whether a follower has something to ask for that is not in this Fetch.
        self._is_called = False
        self._quiet = quiet
        self._read = read
        self._targets = targets
        self._limits = limits
        self._available = available
        self._finish = finish
        self._seen: dict[Hashable, tuple[Partition, int, int, FetchTarget]] = seen
        self._woken: list[Hashable] = []

    def woken_by(self, key: Hashable) -> None:
        """Keep the partition for `try_complete`."""
        if isinstance(key, FetchesOf):
            self._is_called = True
        else:
            self._woken.append(key)

    def try_complete(self, now: float) -> FetchResponse | None:
        """Answer once enough was appended, a partition is gone, or records that it waits at were deleted.

        A follower that has another partition to ask for is answered as well.
        """
        changed = self._is_called
        if self._quiet is not None and self._quiet in self._woken:
            self._woken.remove(self._quiet)
            self._woken += self._no_longer_quiet(self._quiet)
        for key in self._woken:
            partition, leader_epoch, seen, target = self._seen[key]
            size = _size(partition, self._limits)
            if not self._is_held_back(partition):
                self._available += size - seen
            self._seen[key] = partition, leader_epoch, size, target
            changed |= partition.deleted or partition.log.is_offline or target.offset < partition.log.log_start_offset
            changed |= partition.leader_epoch != leader_epoch
        self._woken.clear()
        if not changed and (self._available < self._limits.min_bytes or self._waits_for_transactions()):
            return None
        return self.on_expiration(now)

    def _no_longer_quiet(self, quiet: QuietPartitions) -> list[Hashable]:
        """Wait for what has grown as well, from where it was when it became quiet; returns the keys."""
        keys: list[Hashable] = []
        for target in quiet.take_grown():
            partition = target.partition
            if partition is not None:
                self._seen.setdefault(partition.log_end, (partition, target.leader_epoch, target.appended, target))
                keys.append(partition.log_end)
        return keys

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether a follower is not sent what was appended, because the quota for that is used up."""
        limits = self._limits
        if limits.quota is None or limits.replica is None or limits.allowance >= 0:
            return False
        return is_throttled(partition, limits.replica.broker_id, limits.quota)

    def _waits_for_transactions(self) -> bool:
        """Whether all that was appended belongs to open transactions, or stands behind them."""
        if self._limits.isolation != IsolationLevel.READ_COMMITTED:
            return False
        return all(
            target.partition is None or target.partition.log.last_stable_offset <= target.offset
            for target in self._targets
        )

    def on_expiration(self, now: float) -> FetchResponse:
        """Return what there is now."""
        return self._finish(self._read(), now)


def _size(partition: Partition, limits: FetchLimits) -> int:
    """Return how many bytes of a partition there were for this reader since the broker started."""
    return partition.readable if limits.replica is None else partition.appended
