"""Committed offsets in memory, and those of open transactions."""

from __future__ import annotations

from collections.abc import Container

from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata

#: Topic → partition → offset.
TopicOffsets = dict[str, dict[int, OffsetAndMetadata]]


class _Offsets:
    __slots__ = ("by_group",)

    def __init__(self) -> None:
        self.by_group: dict[str, TopicOffsets] = {}

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        return self.by_group.get(group_id, {}).get(topic, {}).get(partition)

    def put(self, group_id: str, topic: str, partition: int, offset: OffsetAndMetadata) -> None:
        self.by_group.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        if topics is None or partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
        if not topics:
            del self.by_group[group_id]


class OffsetStore:
    """Group, topic and partition → committed offset.

    What a transaction commits stays pending under its producer id until the marker comes (KIP-98, KIP-447).
    """

    __slots__ = ("_committed", "_open_transactions", "_pending")

    def __init__(self) -> None:
        self._committed = _Offsets()
        self._pending: dict[int, _Offsets] = {}
        #: Group → producer ids with pending offsets in it.
        self._open_transactions: dict[str, set[int]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """The committed offset, None without one."""
        return self._committed.get(group_id, topic, partition)

    def of_group(self, group_id: str) -> TopicOffsets:
        """All committed offsets of a group; not to be changed."""
        return self._committed.by_group.get(group_id, {})

    def group_ids(self) -> list[str]:
        """The groups with committed offsets."""
        return list(self._committed.by_group)

    def put(self, group_id: str, topic: str, partition: int, offset: OffsetAndMetadata) -> None:
        """Take over a commit that is in the log."""
        self._committed.put(group_id, topic, partition, offset)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Take over a tombstone that is in the log: it also ends what transactions committed before it."""
        self._committed.remove(group_id, topic, partition)
        for producer_id in self._open_transactions.get(group_id, ()):
            self._pending[producer_id].remove(group_id, topic, partition)

    def remove_group(self, group_id: str) -> None:
        """Forget everything about a group."""
        for topic, partition in self.all_partitions(group_id):
            self.remove(group_id, topic, partition)

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, offset: OffsetAndMetadata
    ) -> None:
        """Take over a commit of an open transaction that is in the log."""
        self._pending.setdefault(producer_id, _Offsets()).put(group_id, topic, partition, offset)
        self._open_transactions.setdefault(group_id, set()).add(producer_id)

    def end_transaction(self, producer_id: int, committed: bool, group_ids: Container[str]) -> None:
        """Take over a transaction's marker that is in the log: it ends the transaction for these groups.

        They are those of the marker's partition; the groups of other partitions have markers of their own, and may be
        in a later transaction of the same producer.
        """
        pending = self._pending.get(producer_id)
        if pending is None:
            return
        open_in = [group_id for group_id, ids in self._open_transactions.items() if producer_id in ids]
        for group_id in open_in:
            if group_id not in group_ids:
                continue
            topics = pending.by_group.pop(group_id, {})
            self._close_transaction(producer_id, group_id)
            if committed:
                self._commit(group_id, topics)
        if not pending.by_group:
            del self._pending[producer_id]

    def _close_transaction(self, producer_id: int, group_id: str) -> None:
        producer_ids = self._open_transactions[group_id]
        producer_ids.discard(producer_id)
        if not producer_ids:
            del self._open_transactions[group_id]

    def _commit(self, group_id: str, topics: TopicOffsets) -> None:
        for topic, partitions in topics.items():
            for partition, offset in partitions.items():
                existing = self.get(group_id, topic, partition)
                # A commit outside the transaction may have come after this one: the later in the log wins.
                if existing is None or offset.record_offset > existing.record_offset:
                    self.put(group_id, topic, partition, offset)

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change this offset."""
        return any(
            self._pending[producer_id].get(group_id, topic, partition) is not None
            for producer_id in self._open_transactions.get(group_id, ())
        )

    def has_open_transactions(self, group_id: str) -> bool:
        """Whether an open transaction has commits for this group."""
        return group_id in self._open_transactions

    def all_partitions(self, group_id: str) -> dict[tuple[str, int], None]:
        """The group's topics and partitions with a committed or pending offset, in order."""
        found = {(topic, partition): None for topic, part in self.of_group(group_id).items() for partition in part}
        for producer_id in sorted(self._open_transactions.get(group_id, ())):
            for topic, partitions in self._pending[producer_id].by_group.get(group_id, {}).items():
                found.update(((topic, partition), None) for partition in partitions)
        return found

    def groups_with(self, topic: str) -> list[str]:
        """The groups that have an offset, committed or pending, in `topic`."""
        groups = [group_id for group_id, topics in self._committed.by_group.items() if topic in topics]
        for pending in self._pending.values():
            groups += [group_id for group_id, topics in pending.by_group.items() if topic in topics]
        return list(dict.fromkeys(groups))
