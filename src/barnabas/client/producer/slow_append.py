"""What the send path hands on where it would have to wait: values made once per batch, never per record."""

from __future__ import annotations

from typing import Any, NamedTuple


class EncodedRecord(NamedTuple):
    """A record as a batch takes it. `size` is the most bytes that it takes there; `timestamp_ms` is epoch time."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    on_delivery: Any
    size: int


class SlowAppend(NamedTuple):
    """A record that takes a new batch, or a custom partitioner (then `partition` is -1).

    `key` and `value` are what `send()` was given, for the partitioner.
    """

    topic: str
    partition: int
    record: EncodedRecord
    key: Any
    value: Any


class UnsentRecord(NamedTuple):
    """What `send()` was given, where the topic's metadata is missing; nothing was done with it yet."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    timestamp_ms: int | None
    headers: Any
    on_delivery: Any
