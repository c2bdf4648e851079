"""A member of a consumer group (KIP-848)."""

from __future__ import annotations

from typing import NamedTuple

#: Topic id → partitions.
Partitions = dict[bytes, frozenset[int]]
#: Topic id → partition → the epoch at which the member got it (KIP-1251).
AssignedPartitions = dict[bytes, dict[int, int]]

_NOTHING: AssignedPartitions = {}

#: How far a member is on its way to its target assignment; the numbers stand in records.
STABLE = 1
UNREVOKED_PARTITIONS = 2
UNRELEASED_PARTITIONS = 3
#: Written by a newer coordinator: the member has to begin anew.
UNKNOWN_STATE = 127


class ClassicMemberMetadata(NamedTuple):
    """What is known of a member that speaks the classic protocol inside a consumer group.

    `protocols` are names and subscriptions, in the member's order of preference.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerGroupMember(NamedTuple):
    """What the coordinator knows of one member; it never changes, `_replace` makes the next one.

    `assigned` is what the member may use, `pending_revocation` what it has to give up before others can get it.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: int = STABLE
    assigned: AssignedPartitions = _NOTHING
    pending_revocation: AssignedPartitions = _NOTHING

    @property
    def metadata(self) -> tuple[object, ...]:
        """What its metadata record holds, to compare."""
        return self[:10]

    def in_epoch(self, member_epoch: int) -> ConsumerGroupMember:
        """Return the member in another epoch, which remembers the one it comes from."""
        return self._replace(member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has all that the target assignment of this epoch gives it, and nothing else."""
        return self.state == STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Since which epoch the member has the partition; None if it has not."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch


def partitions_of(assigned: AssignedPartitions) -> Partitions:
    """Return the partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in assigned.items() if partitions}
