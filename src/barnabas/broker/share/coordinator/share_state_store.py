"""The states of share-partitions in memory, as the records of `__share_group_state` make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.share.coordinator import share_group_offset as records

if TYPE_CHECKING:
    from barnabas.broker.coordinator.partition_storage import StoredRecord
    from barnabas.broker.share.coordinator.share_group_offset import ShareGroupOffset
    from barnabas.broker.share.persister import SharePartitionKey


class ShareStateStore:
    """Share-partition → its state, and from which offset on the records of a partition are needed."""

    __slots__ = ("_by_partition", "_offsets", "_partition_of", "states")

    def __init__(self, partition_of: Callable[[SharePartitionKey], int]) -> None:
        self._partition_of = partition_of
        self.states: dict[SharePartitionKey, ShareGroupOffset] = {}
        #: Partition of the topic → its share-partitions.
        self._by_partition: dict[int, dict[SharePartitionKey, None]] = {}
        #: Share-partition → where its snapshot lies.
        self._offsets: dict[SharePartitionKey, int] = {}

    def put(self, key: SharePartitionKey, state: ShareGroupOffset | None, offset: int) -> None:
        """Take over a state whose record is in the log at that offset; None ends the share-partition."""
        partition = self._partition_of(key)
        if state is None:
            self.states.pop(key, None)
            self._offsets.pop(key, None)
            self._by_partition.get(partition, {}).pop(key, None)
            return
        self.states[key] = state
        self._by_partition.setdefault(partition, {})[key] = None
        if not state.updates:
            self._offsets[key] = offset

    def replay(self, partition: int, record: StoredRecord) -> None:
        """Take over one record. Raises ProtocolError; an unknown type is ignored."""
        type = records.record_type(record.key)
        if type not in (records.SHARE_SNAPSHOT, records.SHARE_UPDATE):
            return
        key = records.decode_key(record.key)
        if record.value is None:
            self.put(key, None, record.offset)
        elif type == records.SHARE_SNAPSHOT:
            self.put(key, records.decode_snapshot(record.value), record.offset)
        elif key in self.states:
            # What came before the first snapshot that is left was deleted with good reason.
            self.put(key, self.states[key].updated(records.decode_update(record.value)), record.offset)

    def forget(self, partition: int) -> None:
        """Drop the share-partitions of a partition of the topic."""
        for key in self._by_partition.pop(partition, {}):
            del self.states[key]
            self._offsets.pop(key, None)

    def of_partition(self, partition: int) -> dict[SharePartitionKey, ShareGroupOffset]:
        """Return the share-partitions of a partition of the topic."""
        return {key: self.states[key] for key in self._by_partition.get(partition, ())}

    def last_redundant_offset(self, partition: int) -> int:
        """Return the offset before which no record is needed; -1 where none is known to be."""
        offsets = [self._offsets[key] for key in self._by_partition.get(partition, ())]
        return min(offsets, default=-1)
