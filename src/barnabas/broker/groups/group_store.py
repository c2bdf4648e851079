"""The groups in memory, and the way a change of one gets into `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.group_counts import GroupCounts

if TYPE_CHECKING:
    from barnabas.broker.coordinator.coordinator_log import CoordinatorLog
    from barnabas.broker.coordinator.draft import Draft
    from barnabas.broker.groups.group import Group
    from barnabas.broker.instant import Instant
    from barnabas.protocol.producer_identity import ProducerIdAndEpoch

#: Any client can commit for a group that it invents, and the group is kept for offsets.retention.minutes. So many take
#: some hundred megabytes.
MAX_GROUPS = 200_000


class GroupStore:
    """Group id → group, of either protocol. A change is a `Draft`: its records are written before it is made."""

    __slots__ = ("_by_partition", "_log", "_reported_full", "_tried_again", "counts", "groups", "warn")

    def __init__(self, log: CoordinatorLog, warn: Callable[[str], None]):
        self._log = log
        self.warn = warn
        self.counts = GroupCounts()
        self._reported_full = False
        #: Partition → what cannot be written there and is tried again, as far as it is told.
        self._tried_again: dict[int, set[str]] = {}
        self.groups: dict[str, Group] = {}
        #: Partition of `__consumer_offsets` → the ids of its groups, in the order they came.
        self._by_partition: dict[int, dict[str, None]] = {}

    # --- where groups are

    def partition_of(self, group_id: str) -> int:
        """Give the partition of `__consumer_offsets` that holds this group."""
        return self._log.partition_of(group_id)

    def group_ids_in(self, partition: int) -> list[str]:
        """Give the groups in memory that this partition of `__consumer_offsets` holds."""
        return list(self._by_partition.get(partition, ()))

    def hashes_to(self, partition: int) -> Container[str]:
        """Give the container of all group ids, known or not, that belong into this partition."""
        return _IdsOf(self._log, partition)

    def ensure_topic(self, now_ms: int) -> None:
        """Create `__consumer_offsets` if it does not exist. Raises `KafkaError`."""
        self._log.ensure_topic(now_ms)

    # --- changing

    def commit(self, group_id: str, draft: Draft, at: Instant, producer: ProducerIdAndEpoch | None = None) -> None:
        """Write the draft's records, all or none, then make its changes. Raises `KafkaError`; then nothing changed.

        With `producer` the records are part of its open transaction.
        """
        self._log.commit(group_id, draft, at, producer)
        if self._tried_again:
            self._tried_again.pop(self.partition_of(group_id), None)

    def warn_of_retry(self, group_id: str, what: str, problem: str) -> None:
        """Warn that something could not be written and is tried again.

        `what` is of a few kinds: each is told once for a partition, until something can be written there.
        """
        told = self._tried_again.setdefault(self.partition_of(group_id), set())
        if what not in told:
            told.add(what)
            self.warn(f"{problem}; that is tried again, and so are others of this kind in its partition")

    def put(self, group: Group) -> None:
        """Take over a group that is in the log, in the place of what had its id before."""
        group_id = group.group_id
        if group_id not in self.groups:
            self._by_partition.setdefault(self.partition_of(group_id), {})[group_id] = None
        self.groups[group_id] = group

    def check_room(self, group_id: str) -> None:
        """Raise `PolicyViolationError` for a new group when there are `MAX_GROUPS` already."""
        if len(self.groups) < MAX_GROUPS or group_id in self.groups:
            return
        problem = (
            f"The broker keeps {len(self.groups)} groups and takes no new one until some are deleted or expire "
            "(offsets.retention.minutes)"
        )
        if not self._reported_full:
            self._reported_full = True
            self.warn(problem)
        raise errors.PolicyViolationError(f"Group {group_id} cannot be made. {problem}.")

    def ensure_group(self, group_id: str, now_ms: int) -> None:
        """Make a simple group unless there is a group of this id."""
        if group_id not in self.groups:
            self.put(ClassicGroup(group_id, now_ms))

    def remove(self, group_id: str) -> None:
        """Forget the group; its offsets stay."""
        if self.groups.pop(group_id, None) is not None:
            self._reported_full = False
            partition = self.partition_of(group_id)
            ids = self._by_partition[partition]
            del ids[group_id]
            if not ids:
                del self._by_partition[partition]

    # --- looking up

    def group(self, group_id: str) -> Group:
        """Give the group, of any type. Raises `GroupIdNotFoundError`."""
        group = self.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFoundError(f"Group {group_id} not found.")
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Give the group if it is a classic one."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """Give the group if it is a consumer group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None


class _IdsOf:
    __slots__ = ("_log", "_partition")

    def __init__(self, log: CoordinatorLog, partition: int):
        self._log = log
        self._partition = partition

    def __contains__(self, group_id: object) -> bool:
        return isinstance(group_id, str) and self._log.partition_of(group_id) == self._partition
