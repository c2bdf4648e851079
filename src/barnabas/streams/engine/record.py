"""Records as they come in and go out: bytes, with where from and where to."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.streams.serdes.serde import Headers


class InputRecord(NamedTuple):
    """A record of a topic: bytes of key and value, timestamp in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class OutputRecord(NamedTuple):
    """A record to be written. A partition of None is left to the default partitioner, a timestamp of None to the clock.

    `partition` is the task's own for changelogs.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: Headers


class StampedRecord(NamedTuple):
    """A record with deserialized key and value; `timestamp` is the one that the extractor gave it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers
    raw: InputRecord
