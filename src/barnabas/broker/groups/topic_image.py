"""The port through which groups see the topics of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Protocol


class TopicDescription(Protocol):
    """One topic."""

    name: str
    id: bytes
    partitions: int


class TopicImage(Protocol):
    """The topics there are now."""

    version: int
    """Grows with every change of any topic."""

    def topic(self, name: str) -> TopicDescription | None:
        """Return the topic of that name."""

    def topic_by_id(self, id: bytes) -> TopicDescription | None:
        """Return the topic of that id."""

    def topics(self) -> Iterator[TopicDescription]:
        """All topics, by name."""


def metadata_hash(names: frozenset[str], image: TopicImage) -> int:
    """Return a signed number of 64 bits that changes when one of these topics comes, goes or grows; 0 when none exists.

    Apache Kafka stores XXH3 of the same facts in the same field; where the two disagree, one more epoch begins.
    """
    found = [topic for name in sorted(names) if (topic := image.topic(name)) is not None]
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for topic in found:
        name = topic.name.encode()
        digest.update(topic.id + len(name).to_bytes(4, "big") + name + topic.partitions.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
