"""What each record of `__consumer_offsets` does to groups and offsets, when it is read back."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.coordinator.partition_storage import StoredRecord
from barnabas.broker.groups import coordinator_records as records
from barnabas.broker.groups.group_kinds import KIND_OF, table_of
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.offsets.offset_store import OffsetStore
from barnabas.broker.groups.record_table import group_id_of


class GroupReplay:
    """The records, in the order they were written in, as changes of the two stores."""

    __slots__ = ("_groups", "_offsets", "_unknown_types", "_warn")

    def __init__(self, groups: GroupStore, offsets: OffsetStore, warn: Callable[[str], None]):
        self._groups = groups
        self._offsets = offsets
        self._warn = warn
        self._unknown_types: set[int] = set()

    def replay(self, partition: int, record: StoredRecord) -> None:
        """Take over one record. Raises `KafkaError` for one that cannot be read; an unknown type is ignored."""
        if record.ends_transaction is not None:
            of_partition = self._groups.hashes_to(partition)
            self._offsets.end_transaction(record.producer_id, record.ends_transaction, of_partition)
            return
        record_type = records.record_type(record.key)
        if record_type in (records.OFFSET_COMMIT, records.LEGACY_OFFSET_COMMIT):
            self._replay_offset(record)
        elif record_type == records.GROUP_METADATA:
            self._replay_group(record)
        elif record_type in KIND_OF:
            self._replay_by(KIND_OF[record_type], record, record_type)
        elif record_type not in self._unknown_types:
            self._unknown_types.add(record_type)
            self._warn(f"Records of type {record_type} in __consumer_offsets are not understood and ignored")

    def _replay_offset(self, record: StoredRecord) -> None:
        key = records.decode_offset_commit_key(record.key)
        offsets = self._offsets
        if record.value is None:
            offsets.remove(key.group, key.topic, key.partition)
            return
        offset = records.decode_offset_commit_value(record.value, record.offset)
        # Without a group record before it the commit made a simple group.
        self._groups.ensure_group(key.group, offset.commit_timestamp_ms)
        if record.producer_id < 0:
            offsets.put(key.group, key.topic, key.partition, offset)
        else:
            offsets.put_pending(record.producer_id, key.group, key.topic, key.partition, offset)

    def _replay_group(self, record: StoredRecord) -> None:
        group_id = records.decode_group_metadata_key(record.key)
        if record.value is not None:
            self._groups.put(records.decode_group_metadata_value(group_id, record.value))
        elif self._groups.classic(group_id) is not None:
            self._groups.remove(group_id)

    def _replay_by(self, kind: str, record: StoredRecord, record_type: int) -> None:
        table = table_of(kind)
        key = table.key(record_type, record.key)
        group_id = group_id_of(key)
        group = self._groups.groups.get(group_id)
        if not isinstance(group, table.kind):
            if record.value is None:
                return
            group = table.kind(group_id)
            self._groups.put(group)
        if record_type == table.ending and record.value is None:
            self._groups.remove(group_id)
        else:
            table.replay(group, key, record.value)
