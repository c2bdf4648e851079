"""All groups and their committed offsets, and the way a change of them gets into `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.offsets.store import OffsetStore
from barnabas.broker.groups.partitioner import partition_for

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator_records import Record
    from barnabas.broker.groups.group import Group
    from barnabas.broker.groups.storage import CoordinatorStorage
    from barnabas.broker.instant import Instant
    from barnabas.protocol.producer_identity import ProducerIdAndEpoch

_E = errors
#: What clients are told when an append failed: errors that they know how to handle from a coordinator.
_TRANSLATED = {
    **dict.fromkeys(
        (_E.UnknownTopicOrPartitionError.code, _E.NotEnoughReplicasError.code, _E.KafkaTimeoutError.code),
        _E.CoordinatorNotAvailableError.code,
    ),
    **dict.fromkeys((_E.NotLeaderOrFollowerError.code, _E.KafkaStorageError.code), _E.NotCoordinatorError.code),
    **dict.fromkeys(
        (_E.RecordTooLargeError.code, _E.RecordBatchTooLargeError.code, _E.InvalidFetchSizeError.code),
        _E.UnknownServerError.code,
    ),
}


def coordinator_error_code(error: errors.KafkaError) -> int:
    """The code that answers a request whose records could not be written because of `error`."""
    return _TRANSLATED.get(error.code, error.code)


class GroupStore:
    """What is in memory; `write` is the only way to the log, and comes before the change in memory."""

    __slots__ = ("groups", "offsets", "storage")

    def __init__(self, storage: CoordinatorStorage):
        self.storage = storage
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds this group."""
        return partition_for(group_id, self.storage.partition_count)

    def groups_in(self, partition: int) -> Container[str]:
        """The groups that this partition of `__consumer_offsets` holds."""
        return _GroupsIn(self, partition)

    def ensure_topic(self, now_ms: int) -> None:
        """Create `__consumer_offsets` if it does not exist. Raises KafkaError."""
        self.storage.ensure(now_ms)

    def write(self, group_id: str, records: Sequence[Record], at: Instant) -> int:
        """Append the records, all or none; gives the offset of the first. Raises KafkaError."""
        self.ensure_topic(at.now_ms)
        return self.storage.append(self.partition_of(group_id), records, at.now_ms)

    def write_in_transaction(
        self, group_id: str, records: Sequence[Record], producer: ProducerIdAndEpoch, at: Instant
    ) -> int:
        """As `write`, in the open transaction of `producer`."""
        self.ensure_topic(at.now_ms)
        return self.storage.append(self.partition_of(group_id), records, at.now_ms, producer)

    def group(self, group_id: str) -> Group:
        """The group, of whatever type. Raises GroupIdNotFoundError."""
        group = self.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFoundError(f"Group {group_id} not found.")
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group if it is a classic one."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group if it is a consumer group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def ensure_group(self, group_id: str, now_ms: int) -> None:
        """See to it that there is a group: without one, a simple one is made."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id, now_ms)

    def remove(self, group_id: str) -> None:
        """Forget the group; its offsets stay."""
        self.groups.pop(group_id, None)

    def clear(self) -> None:
        """Forget everything."""
        self.groups.clear()
        self.offsets = OffsetStore()


class _GroupsIn:
    __slots__ = ("_partition", "_store")

    def __init__(self, store: GroupStore, partition: int):
        self._store = store
        self._partition = partition

    def __contains__(self, group_id: object) -> bool:
        return isinstance(group_id, str) and self._store.partition_of(group_id) == self._partition
