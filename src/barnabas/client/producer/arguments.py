"""What the application's arguments must be: checked where a call begins, so that none fails later, far from its name.

Each function gives the value as it goes on, and raises `IllegalTypeError` or `IllegalArgumentError` with the name of
the argument. Integers may be of any type that is one (numpy's), strings of any subclass (`StrEnum`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any

from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
# The length of a string on the wire is a signed number of 16 bits.
MAX_TEXT = 2**15 - 1


def integer(given: Any, name: str, most: int, least: int = 0) -> int:
    """Return a whole number from `least` to `most`."""
    try:
        number = index(given)
    except TypeError:
        raise IllegalTypeError(f"{name} is an int, not {type(given).__name__}: {given!r}") from None
    if not least <= number <= most:
        raise IllegalArgumentError(f"{name} is from {least} to {most}, not {number}")
    return number


def text(given: Any, name: str) -> str:
    """Return a string that can be sent."""
    if not isinstance(given, str):
        raise IllegalTypeError(f"{name} is a str, not {type(given).__name__}: {given!r}")
    plain = str.__str__(given)
    try:
        size = len(plain.encode())
    except UnicodeEncodeError as error:
        raise IllegalArgumentError(f"{name} is no text that UTF-8 can carry ({error.reason}): {plain!r}") from None
    if size > MAX_TEXT:
        raise IllegalArgumentError(f"{name} takes {size} bytes, more than a request can carry ({MAX_TEXT})")
    return plain


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


def partition(given: Any, name: str) -> TopicPartition:
    """Return a `TopicPartition`, or a pair that says as much."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise IllegalTypeError(f"{name} names partitions by TopicPartition(topic, partition), not {given!r}")
    topic, number = given
    return TopicPartition(text(topic, f"{name}: a topic"), integer(number, f"{name}: a partition", MAX_INT32))


def offsets(given: Any, name: str = "offsets") -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit, by partition."""
    if not isinstance(given, Mapping):
        raise IllegalTypeError(f"{name} is a mapping of TopicPartition to offset, not {type(given).__name__}")
    return {partition(tp, name): _offset(offset, f"{name}: the offset of {tp}") for tp, offset in given.items()}


def _offset(given: Any, name: str) -> OffsetAndMetadata:
    from barnabas.client.consumer.offsets import OffsetAndMetadata

    if not isinstance(given, OffsetAndMetadata):
        return OffsetAndMetadata(integer(given, name, MAX_INT64))
    offset, note, epoch = given
    return OffsetAndMetadata(
        integer(offset, name, MAX_INT64),
        text(note, f"{name}, its metadata,"),
        integer(epoch, f"{name}, its leader_epoch,", MAX_INT32, -1),
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
        text(group.group_id, f"{name}: group_id"),
        integer(group.generation_id, f"{name}: generation_id", MAX_INT32, -(2**31)),
        text(group.member_id, f"{name}: member_id"),
        None if group.group_instance_id is None else text(group.group_instance_id, f"{name}: group_instance_id"),
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
