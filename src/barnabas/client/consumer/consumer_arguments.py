"""Checks what is given to a consumer's methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.client.arguments import INT32, INT64, as_integer, as_mapping, as_partition, as_text
from barnabas.client.consumer.membership.messages import GroupMembershipOperation
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.protocol.topic_partition import TopicPartition

_LISTENER_METHODS = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")


def as_operation(operation: Any) -> GroupMembershipOperation:
    """Return what `close` does to the membership, which may be given by name."""
    try:
        return GroupMembershipOperation(operation.lower())
    except (ValueError, AttributeError):
        known = ", ".join(GroupMembershipOperation)
        raise IllegalArgumentError(f"group_membership_operation is {operation!r}; it must be one of {known}") from None


def as_offset(value: Any, name: str = "offset") -> OffsetAndMetadata:
    """Return an offset to commit or to seek to, which may be given as a number, or as a pair with a note."""
    if isinstance(value, tuple):
        if not 1 <= len(value) <= 3:
            raise IllegalTypeError(f"{name} is {value!r}; give an OffsetAndMetadata(offset, metadata, leader_epoch)")
        given = OffsetAndMetadata(*value)
    else:
        given = OffsetAndMetadata(value)
    return OffsetAndMetadata(
        as_integer(given.offset, name, 0, INT64),
        as_text(given.metadata or "", f"the metadata of {name}"),
        as_integer(given.leader_epoch, f"the leader epoch of {name}", -1, INT32),
    )


def as_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit, which may be given as numbers or pairs."""
    chosen = {}
    for partition, offset in as_mapping(offsets, "offsets").items():
        name = as_partition(partition, "a partition in offsets")
        chosen[name] = as_offset(offset, f"the offset of {name} in offsets")
    return chosen


def as_times(timestamps: Any) -> Mapping[TopicPartition, int]:
    """Return times in epoch milliseconds, by partition."""
    chosen = {}
    for partition, timestamp in as_mapping(timestamps, "timestamps").items():
        name = as_partition(partition, "a partition in timestamps")
        chosen[name] = as_integer(timestamp, f"the time for {name} in timestamps", 0, INT64)
    return chosen


def check_listener(listener: object) -> None:
    """Refuse what is no rebalance listener."""
    if listener is None:
        return
    missing = [name for name in _LISTENER_METHODS if not callable(getattr(listener, name, None))]
    if missing:
        raise IllegalTypeError(f"listener is {listener!r}, no ConsumerRebalanceListener: it lacks {missing[0]}")
