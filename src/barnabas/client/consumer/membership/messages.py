"""What the two cores of a consumer tell each other.

The application's core sends the commands, the membership core the events. They are immutable, and the receiver of one
owns what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition

#: Topic id to the numbers of its partitions, in order.
TopicIdPartitions = Mapping[bytes, tuple[int, ...]]


class GroupMembershipOperation(StrEnum):
    """What becomes of the membership when a consumer is closed (KIP-1092)."""

    #: A dynamic member leaves, a static one (group.instance.id) stays until its session ends.
    DEFAULT = "default"
    #: Leave, static or not.
    LEAVE_GROUP = "leave_group"
    #: Stay, static or not: the partitions go to others once the session has timed out.
    REMAIN_IN_GROUP = "remain_in_group"


class Generation(NamedTuple):
    """One round of a group and this member's name in it; the protocol is the one all members agreed on.

    In the consumer protocol the member's epoch stands in place of the generation's number, and no protocol is named.
    """

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether the member belongs to no group."""
        return self.generation_id < 0 or not self.member_id


NO_GENERATION = Generation()

# --- commands


class Join(NamedTuple):
    """Join, or join again; `generation` is the one that the partitions in `protocols` were owned in.

    `attempt` numbers the joins of one consumer; every event that follows from this one carries it.
    """

    attempt: int
    generation: Generation
    protocols: Sequence[tuple[str, bytes]]
    reason: str


class Sync(NamedTuple):
    """The assignment that the application's core made as leader of `generation`."""

    attempt: int
    generation: Generation
    assignments: Mapping[str, bytes]


class Subscribe(NamedTuple):
    """Join a group of the consumer protocol, or tell it that the subscription changed: these topics, or a regex (RE2).

    `attempt` numbers the memberships of one consumer; every event that follows from this one carries it.
    """

    attempt: int
    topic_names: tuple[str, ...]
    topic_regex: str | None = None


class Reconciled(NamedTuple):
    """The application has given up what it had to and taken what it got: it now owns exactly these (by topic id)."""

    attempt: int
    owned: TopicIdPartitions


class Leave(NamedTuple):
    """Leave the group, in the way `operation` says."""

    reason: str
    operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT


class CommitOffsets(NamedTuple):
    """Commit, as member of `generation`, or outside any group when it is None.

    The coordinator is waited for until `deadline` (monotonic); with `retry` a failure that may pass is tried again;
    with `needs_topics` a topic that the coordinator does not know is no such failure.
    """

    id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    generation: Generation | None
    deadline: float
    retry: bool
    needs_topics: bool = False


class FetchOffsets(NamedTuple):
    """Ask for committed offsets, again and again until `deadline` (monotonic)."""

    id: int
    partitions: Sequence[TopicPartition]
    deadline: float
    retry: bool = True


class Stop(NamedTuple):
    """Finish what was asked for and end, at `deadline` (monotonic) at the latest."""

    deadline: float


Command = Join | Sync | Subscribe | Reconciled | Leave | CommitOffsets | FetchOffsets | Stop

# --- events


class GroupMember(NamedTuple):
    """One member, as the coordinator describes it to the leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class LeaderElected(NamedTuple):
    """This member leads `generation`: it owes the coordinator an assignment (`Sync`)."""

    attempt: int
    generation: Generation
    members: Sequence[GroupMember]
    skip_assignment: bool


class Assigned(NamedTuple):
    """The rebalance is complete: what this member got in `generation`."""

    attempt: int
    generation: Generation
    assignment: bytes


class MemberEpochChanged(NamedTuple):
    """The coordinator gave the member another epoch; `generation` holds it in place of a generation's number."""

    attempt: int
    generation: Generation


class TargetAssigned(NamedTuple):
    """The coordinator wants this member to own exactly these partitions (by topic id); `Reconciled` is the answer."""

    attempt: int
    partitions: TopicIdPartitions


class RejoinNeeded(NamedTuple):
    """The group rebalances, or the last attempt failed: get ready and `Join` again, as the same member."""

    attempt: int
    reason: str


class MembershipLost(NamedTuple):
    """The member is out of the group; `generation` is all that is left of its identity."""

    attempt: int
    generation: Generation
    reason: str


class MembershipFailed(NamedTuple):
    """Something that trying again does not cure; the application has to see it."""

    error: KafkaError


class OffsetsCommitted(NamedTuple):
    """The outcome of `CommitOffsets`."""

    id: int
    error: KafkaError | None


class OffsetsFetched(NamedTuple):
    """The outcome of `FetchOffsets`; None stands for a partition that nothing was committed for."""

    id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    error: KafkaError | None


Event = (
    LeaderElected
    | Assigned
    | MemberEpochChanged
    | TargetAssigned
    | RejoinNeeded
    | MembershipLost
    | MembershipFailed
    | OffsetsCommitted
    | OffsetsFetched
)
