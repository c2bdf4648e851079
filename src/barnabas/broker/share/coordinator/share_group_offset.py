"""The state of one share-partition in the share coordinator, and its records in Apache Kafka's formats.

A key is its record type as int16, then the key message; a value its version as int16, then the value message; a value
of None is a tombstone.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack, unpack_from
from typing import NamedTuple

from barnabas.broker.coordinator.partition_storage import Record
from barnabas.broker.share.coordinator.combine_state_batches import combine_state_batches, merge_state_batches
from barnabas.broker.share.persister import (
    ANY_EPOCH,
    UNINITIALIZED_COUNT,
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    StateBatch,
    StateUpdate,
)
from barnabas.errors import ProtocolError
from barnabas.protocol.messages.share_snapshot_key import ShareSnapshotKey
from barnabas.protocol.messages.share_snapshot_value import ShareSnapshotValue
from barnabas.protocol.messages.share_snapshot_value import StateBatch as SnapshotBatch
from barnabas.protocol.messages.share_update_key import ShareUpdateKey
from barnabas.protocol.messages.share_update_value import ShareUpdateValue
from barnabas.protocol.messages.share_update_value import StateBatch as UpdateBatch

SHARE_SNAPSHOT = 0
SHARE_UPDATE = 1

_VERSION = 0


class ShareGroupOffset(NamedTuple):
    """What is known of a share-partition; `updates` counts the update records since its snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: Sequence[StateBatch]
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
    updates: int = 0

    def updated(self, update: StateUpdate) -> ShareGroupOffset:
        """Return the state after an update; epochs and offsets of -1 leave what was."""
        start = self.start_offset if update.start_offset == UNINITIALIZED_START_OFFSET else update.start_offset
        return self._replace(
            leader_epoch=self.leader_epoch if update.leader_epoch == ANY_EPOCH else update.leader_epoch,
            start_offset=start,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=merge_state_batches(self.state_batches, update.state_batches, start),
            updates=self.updates + 1,
        )

    def snapshot(self, now_ms: int) -> ShareGroupOffset:
        """Return the same as its next snapshot."""
        return self._replace(snapshot_epoch=self.snapshot_epoch + 1, write_timestamp_ms=now_ms, updates=0)


def initialized(before: ShareGroupOffset | None, state_epoch: int, start_offset: int, now_ms: int) -> ShareGroupOffset:
    """Return the state of a share-partition that begins anew."""
    # Where it begins is known, so that its lag can be told.
    count = UNINITIALIZED_COUNT if start_offset == UNINITIALIZED_START_OFFSET else 0
    epoch = 0 if before is None else before.snapshot_epoch + 1
    return ShareGroupOffset(epoch, state_epoch, 0, start_offset, count, (), now_ms, now_ms)


# --- records


def snapshot_record(key: SharePartitionKey, state: ShareGroupOffset) -> Record:
    """Return the whole state."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=state.write_timestamp_ms,
        state_batches=[SnapshotBatch(*batch) for batch in state.state_batches],
    )
    return _snapshot_key(key), pack(">h", _VERSION) + value.encode(_VERSION)


def update_record(key: SharePartitionKey, snapshot_epoch: int, update: StateUpdate) -> Record:
    """Return what a write changes."""
    value = ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=[UpdateBatch(*batch) for batch in update.state_batches],
    )
    encoded = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition).encode(0)
    return pack(">h", SHARE_UPDATE) + encoded, pack(">h", _VERSION) + value.encode(_VERSION)


def tombstone(key: SharePartitionKey) -> Record:
    """Return the end of a share-partition."""
    return _snapshot_key(key), None


def _snapshot_key(key: SharePartitionKey) -> bytes:
    encoded = ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition).encode(0)
    return pack(">h", SHARE_SNAPSHOT) + encoded


def record_type(data: bytes) -> int:
    """Return the record type in front of a key, or the version in front of a value. Raises ProtocolError."""
    if len(data) < 2:
        raise ProtocolError(f"A record in __share_group_state has {len(data)} bytes where its type should be")
    found: int = unpack_from(">h", data)[0]
    return found


def decode_key(data: bytes) -> SharePartitionKey:
    """Return whose record it is. Raises ProtocolError."""
    # Both keys have the same fields.
    key = ShareSnapshotKey.decode(data[2:], 0)
    return SharePartitionKey(key.group_id, key.topic_id, key.partition)


def decode_snapshot(data: bytes) -> ShareGroupOffset:
    """Return the state of a snapshot. Raises ProtocolError."""
    value = ShareSnapshotValue.decode(data[2:], record_type(data))
    return ShareGroupOffset(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        combine_state_batches(map(_batch, value.state_batches), value.start_offset),
        value.create_timestamp,
        value.write_timestamp,
    )


def decode_update(data: bytes) -> StateUpdate:
    """Return what an update has changed. Raises ProtocolError."""
    value = ShareUpdateValue.decode(data[2:], record_type(data))
    return StateUpdate(
        ANY_EPOCH,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        [_batch(one) for one in value.state_batches],
    )


def _batch(stored: SnapshotBatch | UpdateBatch) -> StateBatch:
    return StateBatch(stored.first_offset, stored.last_offset, stored.delivery_state, stored.delivery_count)
