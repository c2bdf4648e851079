"""Committed offsets in memory, and those of open transactions."""

from __future__ import annotations

from collections.abc import Container, Iterable

from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata

#: Topic → partition → offset.
TopicOffsets = dict[str, dict[int, OffsetAndMetadata]]


class OffsetStore:
    """Group, topic and partition → committed offset.

    What a transaction commits stays pending under its producer id until the marker comes (KIP-98, KIP-447).
    """

    __slots__ = ("_committed", "_groups_of_topics", "_open_transactions", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, TopicOffsets] = {}
        #: Producer id → group → offsets. A group stays until its marker comes, even if tombstones took all its offsets.
        self._pending: dict[int, dict[str, TopicOffsets]] = {}
        #: Group → the producer ids under which it stands in `_pending`.
        self._open_transactions: dict[str, set[int]] = {}
        #: Topic → the groups that have an offset in it, committed or pending.
        self._groups_of_topics: dict[str, dict[str, None]] = {}

    # --- committed

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """Give the committed offset, None without one."""
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> TopicOffsets:
        """Give all committed offsets of a group; not to be changed."""
        return self._committed.get(group_id, {})

    def __len__(self) -> int:
        """How many offsets are committed."""
        return sum(len(partitions) for topics in self._committed.values() for partitions in topics.values())

    def group_ids(self) -> list[str]:
        """Give the groups with committed or pending offsets."""
        return list({**self._committed, **self._open_transactions})

    def put(self, group_id: str, topic: str, partition: int, offset: OffsetAndMetadata) -> None:
        """Take over a commit that is in the log."""
        topics = self._committed.setdefault(group_id, {})
        if topic not in topics:
            topics[topic] = {}
            self._groups_of_topics.setdefault(topic, {})[group_id] = None
        topics[topic][partition] = offset

    def put_written(
        self, group_id: str, topic: str, partition: int, offset: OffsetAndMetadata, record_offset: int
    ) -> None:
        """Take over a commit that was written at `record_offset`."""
        assert record_offset >= 0, "a commit counts once its record is in the log"
        offset.record_offset = record_offset
        self.put(group_id, topic, partition, offset)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Take over a tombstone that is in the log: it also ends what transactions committed before it."""
        topics = self._committed.get(group_id)
        if topics is not None:
            _remove(topics, topic, partition)
            if not topics:
                del self._committed[group_id]
        for producer_id in self._open_transactions.get(group_id, ()):
            _remove(self._pending[producer_id][group_id], topic, partition)
        self._unlink(group_id, (topic,))

    def remove_written(self, group_id: str, topic: str, partition: int, record_offset: int) -> None:
        """Take over a tombstone that was written at `record_offset`."""
        self.remove(group_id, topic, partition)

    def forget_group(self, group_id: str) -> None:
        """Drop all that is known of a group, as if its records had not been read."""
        topics = self._committed.pop(group_id, {})
        for producer_id in list(self._open_transactions.get(group_id, ())):
            self._close_transaction(producer_id, group_id)
        self._unlink(group_id, topics)

    def _unlink(self, group_id: str, topics: Iterable[str]) -> None:
        """Take a group from those of the topics in which it has no offset any more."""
        committed = self._committed.get(group_id, {})
        pending = [self._pending[producer_id][group_id] for producer_id in self._open_transactions.get(group_id, ())]
        for topic in topics:
            groups = self._groups_of_topics.get(topic)
            if groups is None or topic in committed or any(topic in found for found in pending):
                continue
            groups.pop(group_id, None)
            if not groups:
                del self._groups_of_topics[topic]

    # --- pending

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, offset: OffsetAndMetadata
    ) -> None:
        """Take over a commit of an open transaction that is in the log."""
        topics = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
        topics.setdefault(topic, {})[partition] = offset
        self._groups_of_topics.setdefault(topic, {})[group_id] = None
        self._open_transactions.setdefault(group_id, set()).add(producer_id)

    def put_pending_written(
        self,
        producer_id: int,
        group_id: str,
        partition: tuple[str, int],
        offset: OffsetAndMetadata,
        record_offset: int,
    ) -> None:
        """Take over a commit of an open transaction that was written at `record_offset`."""
        offset.record_offset = record_offset
        self.put_pending(producer_id, group_id, *partition, offset)

    def end_transaction(self, producer_id: int, committed: bool, group_ids: Container[str]) -> None:
        """Take over a transaction's marker that is in the log: it ends the transaction for these groups.

        They are those of the marker's partition; the groups of other partitions have markers of their own, and may be
        in a later transaction of the same producer.
        """
        for group_id in list(self._pending.get(producer_id, ())):
            if group_id not in group_ids:
                continue
            topics = self._close_transaction(producer_id, group_id)
            if committed:
                self._commit(group_id, topics)

    def _close_transaction(self, producer_id: int, group_id: str) -> TopicOffsets:
        pending = self._pending[producer_id]
        topics = pending.pop(group_id)
        if not pending:
            del self._pending[producer_id]
        producer_ids = self._open_transactions[group_id]
        producer_ids.remove(producer_id)
        if not producer_ids:
            del self._open_transactions[group_id]
        self._unlink(group_id, topics)
        return topics

    def _commit(self, group_id: str, topics: TopicOffsets) -> None:
        for topic, partitions in topics.items():
            for partition, offset in partitions.items():
                existing = self.get(group_id, topic, partition)
                # A commit outside the transaction may have come after this one: the later in the log wins.
                assert offset.record_offset >= 0
                if existing is None or offset.record_offset > existing.record_offset:
                    self.put(group_id, topic, partition, offset)

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change this offset."""
        return any(
            partition in self._pending[producer_id][group_id].get(topic, ())
            for producer_id in self._open_transactions.get(group_id, ())
        )

    def has_open_transactions(self, group_id: str) -> bool:
        """Whether an open transaction has commits for this group."""
        return group_id in self._open_transactions

    # --- both

    def all_partitions(self, group_id: str) -> dict[tuple[str, int], None]:
        """Give the group's topics and partitions with a committed or pending offset, in order."""
        found = {(topic, partition): None for topic, part in self.of_group(group_id).items() for partition in part}
        for producer_id in sorted(self._open_transactions.get(group_id, ())):
            for topic, partitions in self._pending[producer_id][group_id].items():
                found.update(((topic, partition), None) for partition in partitions)
        return found

    def groups_with(self, topic: str) -> list[str]:
        """Give the groups that have an offset, committed or pending, in `topic`."""
        return list(self._groups_of_topics.get(topic, ()))


def _remove(topics: TopicOffsets, topic: str, partition: int) -> None:
    partitions = topics.get(topic)
    if partitions is not None:
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
