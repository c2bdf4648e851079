"""A group of the classic protocol: its members, its state, its generation."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from barnabas import anatomy, errors
from barnabas.broker.groups.classic_group_member import ClassicGroupMember
from barnabas.broker.groups.group import CLASSIC, CONSUMER_PROTOCOL_TYPE, Group
from barnabas.protocol.messages.join_group_response import JoinGroupResponse

if TYPE_CHECKING:
    from barnabas.broker.purgatory import DelayedOperation

REBALANCE_IN_PROGRESS = errors.RebalanceInProgressError.code

EMPTY = "Empty"
PREPARING_REBALANCE = "PreparingRebalance"
COMPLETING_REBALANCE = "CompletingRebalance"
STABLE = "Stable"
DEAD = "Dead"

#: State → the states that may come before it.
VALID_PREVIOUS_STATES: dict[str, frozenset[str]] = {
    EMPTY: frozenset((PREPARING_REBALANCE,)),
    PREPARING_REBALANCE: frozenset((EMPTY, COMPLETING_REBALANCE, STABLE)),
    COMPLETING_REBALANCE: frozenset((PREPARING_REBALANCE,)),
    STABLE: frozenset((COMPLETING_REBALANCE,)),
    DEAD: frozenset((EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD)),
}


class ClassicGroup(Group):
    """Members, leader, generation and state of one group; every change keeps them consistent.

    A group without a protocol type and without members is a simple one: it only holds committed offsets.
    """

    __slots__ = (
        "_protocol_counts",
        "_static_members",
        "awaiting_join_count",
        "generation_id",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync_members",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "subscribed_topics",
    )

    TYPE = CLASSIC

    def __init__(self, group_id: str, state_timestamp_ms: int, loaded_stable: bool = False):
        super().__init__(group_id)
        self.state = STABLE if loaded_stable else EMPTY
        self.previous_state = DEAD
        #: Epoch milliseconds of the last change of state; -1 in records of old brokers.
        self.state_timestamp_ms = state_timestamp_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        #: Member id → member, in the order they came.
        self.members: dict[str, ClassicGroupMember] = {}
        #: group.instance.id → member id.
        self._static_members: dict[str, str] = {}
        #: Ids given out with MEMBER_ID_REQUIRED whose owners have not come back yet (KIP-394).
        self.pending_members: dict[str, None] = {}
        #: Members of this generation that have not sent SyncGroup yet.
        self.pending_sync_members: set[str] = set()
        self.awaiting_join_count = 0
        #: Protocol name → how many members support it.
        self._protocol_counts: dict[str, int] = {}
        #: Whether a member joined since the initial rebalance was last delayed.
        self.new_member_added = False
        #: What the members subscribe to; None when the coordinator cannot tell.
        self.subscribed_topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.group_id} {self.state} generation={self.generation_id} members={len(self.members)}>"
        )

    # --- state

    def transition_to(self, state: str, now_ms: int) -> None:
        """Change the state. Raises IllegalStateError for a change that the protocol does not have."""
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise errors.IllegalStateError(f"Group {self.group_id} cannot go from {self.state} to {state}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms
        if anatomy.active is not None:
            told = self.group_id, state, self.generation_id, len(self.members), self.leader_id or ""
            anatomy.active.record(anatomy.events.GroupState(*told))

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin now."""
        return self.state in VALID_PREVIOUS_STATES[PREPARING_REBALANCE]

    @property
    def state_name(self) -> str:
        """The state."""
        return self.state

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type of the members; empty for a simple group."""
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return self.state == EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # --- members

    def is_leader(self, member_id: str) -> bool:
        """Whether `member_id` computes the assignment."""
        return self.leader_id == member_id

    def static_member_id(self, group_instance_id: str) -> str | None:
        """Return the member id that `group_instance_id` has now."""
        return self._static_members.get(group_instance_id)

    @property
    def has_all_members_joined(self) -> bool:
        """Whether all members have joined, and wait for the answer."""
        return len(self.members) == self.awaiting_join_count and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: ClassicGroupMember) -> None:
        """Take a member in; the first one leads. Raises IllegalStateError for what the callers have to check before."""
        instance_id = member.group_instance_id
        if instance_id is not None:
            if instance_id in self._static_members:
                raise errors.IllegalStateError(
                    f"Group {self.group_id} has a member with group.instance.id {instance_id}"
                )
            self._static_members[instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.pending_members.pop(member.member_id, None)
        if anatomy.active is not None:
            self._tell_joined(anatomy.active, member)

    def _tell_joined(self, recorder: anatomy.Recorder, member: ClassicGroupMember) -> None:
        names = self.group_id, member.member_id, member.client_id, member.group_instance_id or ""
        recorder.record(anatomy.events.GroupMemberJoined(*names))

    def remove(self, member_id: str) -> None:
        """Put a member, or a pending one, out; if it led, the one that has been there longest leads.

        What it waits for has to be answered before.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            if anatomy.active is not None:
                anatomy.active.record(anatomy.events.GroupMemberLeft(self.group_id, member_id))
            self._count_protocols(member, -1)
            if member.group_instance_id is not None:
                del self._static_members[member.group_instance_id]
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync_members.discard(member_id)

    def park_join(self, member: ClassicGroupMember, operation: DelayedOperation) -> None:
        """Keep the member's JoinGroup until `answer_join`; one that it sent before is told to try again."""
        # The client gave the older request up, or it would not have sent another.
        self.answer_join(member, JoinGroupResponse(error_code=REBALANCE_IN_PROGRESS, member_id=member.member_id))
        member.awaiting_join = operation
        self.awaiting_join_count += 1

    def answer_join(self, member: ClassicGroupMember, response: JoinGroupResponse) -> bool:
        """Answer the member's parked JoinGroup; False if there is none."""
        operation = member.awaiting_join
        if operation is None:
            return False
        member.awaiting_join = None
        self.awaiting_join_count -= 1
        operation.complete(response)
        return True

    def replace_static_member(self, group_instance_id: str, new_member_id: str) -> ClassicGroupMember:
        """Put a copy with a new member id in the place of a static member; assignment and leadership stay."""
        old_member_id = self._static_members[group_instance_id]
        member = copy(self.members.pop(old_member_id))
        member.member_id = new_member_id
        member.is_new = False
        self.members[new_member_id] = member
        if anatomy.active is not None:
            anatomy.active.record(anatomy.events.GroupMemberLeft(self.group_id, old_member_id))
            self._tell_joined(anatomy.active, member)
        self._static_members[group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync_members:
            self.pending_sync_members.remove(old_member_id)
            self.pending_sync_members.add(new_member_id)
        return member

    def update_member(
        self,
        member: ClassicGroupMember,
        protocols: dict[str, bytes],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take over what a member says in a new JoinGroup."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; False if none has."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None or leader.awaiting_join is not None:
            return leader is not None
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def validate_member(self, member_id: str, group_instance_id: str | None) -> None:
        """Raise FencedInstanceIdError if the static member goes by another id now, UnknownMemberIdError if unknown."""
        if group_instance_id is not None:
            existing = self._static_members.get(group_instance_id)
            if existing is None:
                raise errors.UnknownMemberIdError()
            if existing != member_id:
                raise errors.FencedInstanceIdError()
        if member_id not in self.members:
            raise errors.UnknownMemberIdError()

    def validate_generation(self, generation_id: int) -> None:
        """Raise IllegalGenerationError if it is not the group's."""
        if generation_id != self.generation_id:
            raise errors.IllegalGenerationError()

    @property
    def assignments(self) -> dict[str, bytes]:
        """Member id → what the leader assigned to it."""
        return {member_id: member.assignment for member_id, member in self.members.items()}

    # --- protocols

    def supports_protocols(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Whether a member with these can join: the group's type, and one protocol that all members know."""
        if self.state == EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        all_members = len(self.members)
        return any(self._protocol_counts.get(name, 0) == all_members for name in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members support.

        Of equals the one voted for first.
        """
        all_members = len(self.members)
        candidates = {name for name, count in self._protocol_counts.items() if count == all_members}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)

    def init_next_generation(self, now_ms: int) -> None:
        """Begin the next generation: CompletingRebalance with the members that are left, or Empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(COMPLETING_REBALANCE if self.members else EMPTY, now_ms)
        self.pending_sync_members.clear()

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics in the members' subscriptions; None if they are no consumers or cannot be understood."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        from barnabas.broker.groups.embedded_protocol import subscribed_topics

        return subscribed_topics(member.metadata(self.protocol_name) for member in self.members.values())

    def owes_rejoin(self, member: ClassicGroupMember) -> bool:
        """Whether this generation took a partition from the member, which has not joined again since (KIP-429).

        Such a partition has no owner until the rebalance that begins with that join.
        """
        if not self.uses_consumer_protocol or self.protocol_name is None:
            return False
        from barnabas.broker.groups.embedded_protocol import has_to_give_up

        return has_to_give_up(member.metadata(self.protocol_name), member.assignment)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading `topic`; consumers whose subscription is unknown may read any."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def _count_protocols(self, member: ClassicGroupMember, step: int) -> None:
        counts = self._protocol_counts
        for name in member.protocols:
            counts[name] = counts.get(name, 0) + step
            if not counts[name]:
                del counts[name]
