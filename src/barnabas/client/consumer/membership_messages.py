"""What the two cores of a consumer tell each other.

The application's core sends the commands, the membership core the events. They are immutable, and whoever receives one
owns what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition


class Generation(NamedTuple):
    """One round of a group and this member's name in it; the protocol is the one all members agreed on."""

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


class Leave(NamedTuple):
    """Leave the group; a static member is only forgotten here, unless told by `even_if_static`."""

    reason: str
    even_if_static: bool = False


class CommitOffsets(NamedTuple):
    """Commit, as member of `generation`, or outside any group when it is None.

    The coordinator is waited for until `deadline` (monotonic); with `retry` a failure that may pass is tried again.
    """

    id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    generation: Generation | None
    deadline: float
    retry: bool


class FetchOffsets(NamedTuple):
    """Ask for committed offsets, again and again until `deadline` (monotonic)."""

    id: int
    partitions: Sequence[TopicPartition]
    deadline: float
    retry: bool = True


class Stop(NamedTuple):
    """Finish what was asked for and end, at `deadline` (monotonic) at the latest."""

    deadline: float


Command = Join | Sync | Leave | CommitOffsets | FetchOffsets | Stop

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


Event = LeaderElected | Assigned | RejoinNeeded | MembershipLost | MembershipFailed | OffsetsCommitted | OffsetsFetched
