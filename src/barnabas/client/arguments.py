"""Checks arguments where they come in, so that no value that cannot be sent gets any further.

Every function returns the value in its plain form, and raises `IllegalTypeError` or `IllegalArgumentError` that names
the argument. Integers may be of any type with `__index__` (numpy's, say), names of any subclass of `str`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.protocol.topic_partition import TopicPartition

T = TypeVar("T")

INT32 = 2**31 - 1
INT64 = 2**63 - 1
#: The longest string on the wire, in bytes: its length is a signed number of 16 bits.
LONGEST_TEXT = 2**15 - 1
#: Characters of a reason to join or leave that brokers take (KIP-800); they refuse a longer one.
LONGEST_REASON = 255


def as_integer(value: Any, name: str, low: int, high: int) -> int:
    """Return an integer from `low` to `high`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise IllegalTypeError(f"{name} is {value!r}, a {type(value).__name__}; it must be an integer") from None
    if number < 0 <= low:
        raise IllegalArgumentError(f"{name} is {number}; it must not be negative")
    if not low <= number <= high:
        raise IllegalArgumentError(f"{name} is {number}; it must be from {low} to {high}")
    return number


def as_seconds(value: Any, name: str = "timeout") -> float:
    """Return a duration in seconds, 0 or more; infinity is allowed."""
    try:
        seconds = float(value) if not isinstance(value, str | bytes | bytearray) else None
    except (TypeError, ValueError, OverflowError):
        seconds = None
    if seconds is None:
        raise IllegalTypeError(f"{name} is {value!r}, a {type(value).__name__}; it must be a number of seconds")
    if math.isnan(seconds) or seconds < 0:
        raise IllegalArgumentError(f"{name} is {value!r}; it must not be negative (seconds)")
    return seconds


def as_text(value: Any, name: str) -> str:
    """Text that can be sent: without lone surrogates, as `os.fsdecode` makes them."""
    if not isinstance(value, str):
        raise IllegalTypeError(f"{name} is {value!r}, a {type(value).__name__}; it must be text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise IllegalArgumentError(f"{name} is {value!r}, which UTF-8 cannot encode: {error.reason}") from None
    if size > LONGEST_TEXT:
        raise IllegalArgumentError(f"{name} takes {size} bytes, more than a request can carry ({LONGEST_TEXT})")
    return str.__str__(value)


def as_texts(value: Any, name: str) -> list[str]:
    """Return a collection of texts that can be sent, each once."""
    return list(dict.fromkeys(as_text(one, f"an item of {name}") for one in as_items(value, name)))


def as_keys(value: Iterable[T], name: str) -> list[T]:
    """Return the items of a collection, each once."""
    if isinstance(value, str | bytes):
        raise IllegalArgumentError(f"{name} is {value!r}; it must be a collection: write [{value!r}]")
    items = as_items(value, name)
    try:
        return list(dict.fromkeys(items))
    except TypeError as error:
        raise IllegalTypeError(
            f"{name} is {repr(items)[:300]}, of which not every item can be a key: {error}"
        ) from None


def as_topic(value: Any, name: str = "topic") -> str:
    """Return the name of a topic; whether it is a legal one is for the broker to say."""
    topic = as_text(value, name)
    if not topic.strip():
        raise IllegalArgumentError(f"{name} is {value!r}, which is no topic name")
    return topic


#: What users give for a partition.
PartitionLike: TypeAlias = TopicPartition | tuple[str, int]


def as_partition(value: Any, name: str = "partition") -> TopicPartition:
    """Return a partition, which may be given as a pair of topic and number."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise IllegalTypeError(f"{name} is {value!r}, which is no partition; give a TopicPartition(topic, partition)")
    topic, number = value
    return TopicPartition(
        as_topic(topic, f"the topic of {name}"), as_integer(number, f"the number of {name}", 0, INT32)
    )


def as_partitions(collection: Any, name: str = "partitions") -> list[TopicPartition]:
    """Return a collection of partitions."""
    return [as_partition(one, name) for one in as_items(collection, name)]


def as_listed_partitions(arguments: tuple[Any, ...], name: str = "partitions") -> list[TopicPartition]:
    """Partitions given one by one or as one collection."""
    is_collection = len(arguments) == 1 and not isinstance(arguments[0], tuple)
    return as_partitions(arguments[0] if is_collection else arguments, name)


def as_items(value: Iterable[T], name: str) -> list[T]:
    """Return the items of a collection; text and bytes are more likely a mistake than a list of letters."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        raise IllegalTypeError(f"{name} is {value!r}; it must be a collection: write [{value!r}]")
    try:
        return list(value)
    except TypeError:
        raise IllegalTypeError(f"{name} is {value!r}, a {type(value).__name__}; it must be a collection") from None


def as_by_partition(value: Any, name: str) -> dict[TopicPartition, Any]:
    """Return a mapping by partition."""
    return {as_partition(one, f"a key of {name}"): about for one, about in as_mapping(value, name).items()}


def as_mapping(value: Any, name: str) -> Mapping[Any, Any]:
    """Return a mapping."""
    if not isinstance(value, Mapping):
        raise IllegalTypeError(f"{name} is {value!r}, a {type(value).__name__}; it must be a mapping")
    return value


def as_callback(value: T, name: str) -> T:
    """Something that can be called, or None."""
    if value is not None and not callable(value):
        raise IllegalTypeError(f"{name} is {value!r}, a {type(value).__name__}, which cannot be called")
    return value
