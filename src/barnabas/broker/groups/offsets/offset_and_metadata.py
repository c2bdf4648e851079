"""One committed offset."""

from __future__ import annotations

from barnabas.protocol.kafka_uuid import ZERO_UUID


class OffsetAndMetadata:
    """An offset that a group committed for a partition.

    `leader_epoch` is -1 when unknown, `expire_timestamp_ms` -1 when the broker's retention decides, `topic_id` zeros
    when the commit named the topic. `record_offset` is where the commit stands in `__consumer_offsets`.
    """

    __slots__ = (
        "commit_timestamp_ms",
        "committed_offset",
        "expire_timestamp_ms",
        "leader_epoch",
        "metadata",
        "record_offset",
        "topic_id",
    )

    def __init__(
        self,
        committed_offset: int,
        leader_epoch: int,
        metadata: str,
        commit_timestamp_ms: int,
        expire_timestamp_ms: int = -1,
        topic_id: bytes = ZERO_UUID,
        record_offset: int = -1,
    ):
        self.committed_offset = committed_offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topic_id = topic_id
        self.record_offset = record_offset

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetAndMetadata) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]  # mutable: record_offset is filled in after the append

    def __repr__(self) -> str:
        return f"OffsetAndMetadata({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"

    def is_for(self, topic_id: bytes) -> bool:
        """Whether the commit was for this incarnation of the topic, as far as both sides know it (KIP-848)."""
        return topic_id == self.topic_id or ZERO_UUID in (topic_id, self.topic_id)

    def is_expired(self, now_ms: int, retention_ms: int, since_ms: int) -> bool:
        """Whether it can be dropped: past its own expiry, or `retention_ms` after `since_ms`."""
        if self.expire_timestamp_ms != -1:
            return now_ms >= self.expire_timestamp_ms
        return now_ms - since_ms >= retention_ms
