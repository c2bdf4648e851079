"""Checks what is given to a producer's methods, beside what `client/arguments.py` checks for every client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from barnabas.client.arguments import INT32, INT64, as_integer, as_partition, as_text
from barnabas.errors import IllegalArgumentError, IllegalTypeError

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.protocol.topic_partition import TopicPartition


def timeout(given: Any, name: str = "timeout") -> float | None:
    """Seconds that are not negative, or None; infinity is allowed."""
    if given is None:
        return None
    if not isinstance(given, Real):
        raise IllegalTypeError(f"{name} is a number of seconds or None, not {type(given).__name__}: {given!r}")
    seconds = float(given)
    if not seconds >= 0:
        raise IllegalArgumentError(f"{name}: a timeout is never negative and always a number: {given}")
    return seconds


def offsets(given: Any, name: str = "offsets") -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit, by partition."""
    if not isinstance(given, Mapping):
        raise IllegalTypeError(f"{name} is a mapping of TopicPartition to offset, not {type(given).__name__}")
    return {as_partition(tp, name): _offset(offset, f"{name}: the offset of {tp}") for tp, offset in given.items()}


def offsets_consumed(given: Any, group: ConsumerGroupMetadata | str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit, with the leader epochs that the consumer knew whose `group_metadata()` this is."""
    from barnabas.client.consumer.offsets import MemberMetadata, with_epochs

    checked = offsets(given)
    return with_epochs(checked, group.consumed) if isinstance(group, MemberMetadata) else checked


def _offset(given: Any, name: str) -> OffsetAndMetadata:
    from barnabas.client.consumer.offsets import OffsetAndMetadata

    if not isinstance(given, OffsetAndMetadata):
        return OffsetAndMetadata(as_integer(given, name, 0, INT64))
    offset, note, epoch = given
    return OffsetAndMetadata(
        as_integer(offset, name, 0, INT64),
        as_text(note, f"{name}, its metadata,"),
        as_integer(epoch, f"{name}, its leader_epoch,", -1, INT32),
    )


def group_metadata(given: Any, name: str = "group_metadata") -> ConsumerGroupMetadata:
    """Return a member of a group, or a group by its id."""
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata

    group = ConsumerGroupMetadata(given) if isinstance(given, str) else given
    if not isinstance(group, ConsumerGroupMetadata):
        raise IllegalTypeError(f"{name} is consumer.group_metadata() or a group.id, not {given!r}")
    if not group.group_id:
        raise IllegalArgumentError(f"{name} has no group.id")
    checked = ConsumerGroupMetadata(
        as_text(group.group_id, f"{name}: group_id"),
        as_integer(group.generation_id, f"{name}: generation_id", -(2**31), INT32),
        as_text(group.member_id, f"{name}: member_id"),
        None if group.group_instance_id is None else as_text(group.group_instance_id, f"{name}: group_instance_id"),
    )
    if checked.generation_id > 0 and not checked.member_id:
        raise IllegalArgumentError(f"{name} of generation {checked.generation_id} has no member_id")
    return checked


def header_pairs(given: Any) -> Iterable[Any]:
    """Return a record's headers, pair by pair."""
    if isinstance(given, Mapping):
        return given.items()
    if not isinstance(given, Iterable):
        raise IllegalTypeError(f"headers are pairs of str and bytes, or a mapping, not {type(given).__name__}")
    return given
