"""What consumers tell each other inside JoinGroup, as far as the coordinator has to understand it."""

from __future__ import annotations

import struct
from collections.abc import Iterable


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics in these ConsumerProtocolSubscriptions; None if one of them cannot be read.

    Version 0, the version and the topics, is a prefix of every version: nothing else is looked at.
    """
    topics: set[str] = set()
    try:
        for data in subscriptions:
            topics.update(_topics_of(data))
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return frozenset(topics)


def _topics_of(data: bytes) -> list[str]:
    version, count = struct.unpack_from(">hi", data)
    if version < 0 or count < 0 or count > len(data):
        raise ValueError("not a subscription")
    position = 6
    topics = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", data, position)
        position += 2
        if length < 0 or position + length > len(data):
            raise ValueError("not a subscription")
        topics.append(str(data[position : position + length], "utf-8"))
        position += length
    return topics
