"""A streams group (KIP-1071): members, epochs, topology, the target assignment and who has which task.

The epochs are those of `ModernGroup`. The topology has an epoch of its own; it is validated once all topics that it
needs are there, and until then the group is NotReady.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas import errors
from barnabas.broker.groups.group import STREAMS
from barnabas.broker.groups.modern_group import ModernGroup
from barnabas.broker.groups.streams_group_member import StreamsGroupMember, TasksTuple

if TYPE_CHECKING:
    from barnabas.broker.groups.streams.topic_configuration import ConfiguredTopology
    from barnabas.broker.groups.streams.topology import StreamsTopology

EMPTY = "Empty"
NOT_READY = "NotReady"
ASSIGNING = "Assigning"
RECONCILING = "Reconciling"
STABLE = "Stable"

NOT_VALIDATED = -1


class CommittedPartition(Protocol):
    """A partition in a request that commits offsets."""

    partition_index: int


class CommittedTopic(Protocol):
    """A topic in a request that commits offsets."""

    name: str

    @property
    def partitions(self) -> Iterable[CommittedPartition]:
        """Its partitions."""


class StreamsGroup(ModernGroup[StreamsGroupMember, TasksTuple]):
    """The state of one streams group. Its methods change what is in memory only."""

    __slots__ = (
        "_holders",
        "assignment_configs",
        "configured",
        "endpoint_epoch",
        "shutdown_requested_by",
        "topology",
        "validated_topology_epoch",
    )

    TYPE = STREAMS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.target_epoch = 1
        self.topology: StreamsTopology | None = None
        #: Of the topology all of whose topics were there when the group's epoch began.
        self.validated_topology_epoch = NOT_VALIDATED
        #: What the assignor was told of settings when the group's epoch began.
        self.assignment_configs: Mapping[str, str] = {}
        #: Role, sub-topology and number of a task → who has it, or is to give it up.
        self._holders: dict[tuple[int, str, int], frozenset[str]] = {}
        # --- what follows is not in the log
        #: The topology beside the topics; None: to be worked out.
        self.configured: ConfiguredTopology | None = None
        #: Grows when what is to be reached at the members' endpoints changes.
        self.endpoint_epoch = 0
        #: The member on whose word the whole application is to end; None while no member has asked for that.
        self.shutdown_requested_by: str | None = None

    # --- as other groups

    @property
    def state_name(self) -> str:
        """Empty, NotReady, Assigning, Reconciling or Stable."""
        if not self.members:
            return EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return NOT_READY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        reconciled = all(member.is_reconciled_to(self.target_epoch) for member in self.members.values())
        return STABLE if reconciled else RECONCILING

    @property
    def uses_consumer_protocol(self) -> bool:
        """See `Group`: which topics are read is known of them as of consumers."""
        return True

    @property
    def listed_protocol_type(self) -> str:
        """See `Group`."""
        return STREAMS

    def is_subscribed_to(self, topic: str) -> bool:
        """See `Group`."""
        return bool(self.members) and self.topology is not None and self.topology.reads(topic)

    # --- members

    def put(self, member: StreamsGroupMember) -> None:
        """Take a member in, or what became of it."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None and (old.assigned, old.pending_revocation) == (member.assigned, member.pending_revocation):
            return
        self._release(old)
        for tasks in (member.assigned, member.pending_revocation):
            for key in tasks.roles():
                self._holders[key] = self._holders.get(key, frozenset()) | {member.member_id}

    def remove(self, member_id: str) -> None:
        """Put a member out; its part of the target assignment stays."""
        self._release(self.members.pop(member_id, None))
        if not self.members:
            self.shutdown_requested_by = None

    def _release(self, member: StreamsGroupMember | None) -> None:
        for tasks in () if member is None else (member.assigned, member.pending_revocation):
            for key in tasks.roles():
                left = self._holders.get(key, frozenset()) - {member.member_id}  # type: ignore[union-attr]  # not None
                if left:
                    self._holders[key] = left
                else:
                    self._holders.pop(key, None)

    def processes_with(self, role: int, subtopology_id: str, number: int) -> frozenset[str]:
        """Return the processes whose members have a task in a role, also those that are to give it up."""
        holders = self._holders.get((role, subtopology_id, number), ())
        return frozenset(self.members[member_id].process_id for member_id in holders)

    # --- offsets

    def validate_epoch(self, member: StreamsGroupMember, epoch: int) -> None:
        """Raise StaleMemberEpochError."""
        if epoch != member.member_epoch:
            raise errors.StaleMemberEpochError(
                f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}."
            )

    def validate_member_epoch(self, member_id: str, epoch: int) -> None:
        """Raise UnknownMemberIdError or StaleMemberEpochError."""
        self.validate_epoch(self.member(member_id), epoch)

    def validate_commits(self, member: StreamsGroupMember, epoch: int, topics: Iterable[CommittedTopic]) -> None:
        """Let a member commit from its epoch, and from an earlier one what it worked on then already (KIP-1251).

        Raises StaleMemberEpochError for the first partition that is not such a one.
        """
        if epoch == member.member_epoch:
            return
        for topic in topics:
            for partition in topic.partitions:
                self._validate_commit(member, epoch, topic.name, partition.partition_index)

    def _validate_commit(self, member: StreamsGroupMember, epoch: int, topic: str, partition: int) -> None:
        if epoch > member.member_epoch:
            raise errors.StaleMemberEpochError(
                f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}."
            )
        subtopology_id = None if self.topology is None else self.topology.subtopology_of(topic)
        if subtopology_id is None:
            raise errors.StaleMemberEpochError(f"Topic {topic} is not in the topology.")
        since = member.assignment_epoch(subtopology_id, partition)
        if since is None:
            raise errors.StaleMemberEpochError(
                f"Task {subtopology_id}-{partition} is not assigned or pending revocation for member."
            )
        if epoch < since:
            raise errors.StaleMemberEpochError(
                f"Received member epoch {epoch} is older than assignment epoch {since} for task "
                f"{subtopology_id}-{partition}."
            )
