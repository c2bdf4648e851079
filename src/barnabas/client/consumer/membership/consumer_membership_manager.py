"""Membership in a group of the consumer protocol (KIP-848): heartbeats, epochs, targets, leaving."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from barnabas import anatomy
from barnabas.client.consumer.membership.commit_errors import COMMIT_FAILED
from barnabas.client.consumer.membership.consumer_group_heartbeat import HeartbeatState
from barnabas.client.consumer.membership.leave_group import Farewell
from barnabas.client.consumer.membership.member_states import MEMBER_SOURCES, MemberState, following
from barnabas.client.consumer.membership.messages import (
    NO_GENERATION,
    Command,
    Event,
    Generation,
    GroupMembershipOperation,
    Leave,
    MemberEpochChanged,
    MembershipFailed,
    MembershipLost,
    Reconciled,
    Subscribe,
    TargetAssigned,
    TopicIdPartitions,
)
from barnabas.errors import (
    NONE,
    CommitFailedError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    KafkaError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedVersionError,
    for_code,
)

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.membership.coordinator_lookup import CoordinatorLookup
    from barnabas.client.consumer.membership.group_requests import GroupIdentity
    from barnabas.client.consumer.membership.heartbeat import Heartbeat
    from barnabas.client.consumer.membership.share_group_heartbeat import ShareHeartbeatState
    from barnabas.network.node import Node
    from barnabas.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

_FENCED: Final = (UnknownMemberIdError, FencedMemberEpochError)


class ConsumerMembershipManager:
    """One member's side of the consumer protocol: Kafka's ConsumerMembershipManager and its heartbeat requests.

    With a `ShareHeartbeatState` it is that of a share group (KIP-932), which differs in the requests alone.

    It belongs to the membership core. What the application has to do with a target (commit, listeners, positions) is
    not its business: it posts `TargetAssigned` and goes on with heartbeats until `Reconciled` comes, which the next
    heartbeat acknowledges. The member id is the consumer's own, for as long as it lives (KIP-1082).
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        group: GroupIdentity,
        heartbeat: Heartbeat,
        post: Callable[[Event], object],
        *,
        request: HeartbeatState | ShareHeartbeatState,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._group = group
        self._heartbeat = heartbeat
        self._post = post
        self._member_id = request.member_id
        self._request = request
        self.state = MemberState.UNSUBSCRIBED
        self.member_epoch = 0
        # The first epoch of this membership: partitions owned in an older one may belong to others by now.
        self._joined_epoch = 0
        self._attempt = 0
        self._target: TopicIdPartitions | None = None
        # Tells the answers to the present heartbeat from late ones of an earlier membership.
        self._try = 0
        # Something is to be said before the interval is over.
        self._is_urgent = False
        self._farewell = Farewell(client, lookup)
        lookup.on_fatal = self._fail

    def _become(self, state: MemberState) -> None:
        self.state = following(MEMBER_SOURCES, self.state, state)
        if anatomy.active is not None:
            self._tell_state(anatomy.active, state)

    def _tell_state(self, recorder: anatomy.Recorder, state: MemberState) -> None:
        client, group = self._client.client.client_id, self._group.group_id
        recorder.record(anatomy.events.MemberState(client, group, self._member_id, state.value, self.member_epoch))

    # --- commands

    def process(self, command: Command, now: float) -> None:
        """See `GroupMembership`."""
        if isinstance(command, Subscribe):
            self._subscribe(command, now)
        elif isinstance(command, Reconciled):
            self._on_reconciled(command)
        elif isinstance(command, Leave):
            self._leave(command.operation, now)

    def _subscribe(self, command: Subscribe, now: float) -> None:
        self._request.subscribe(command.topic_names, command.topic_regex)
        self._is_urgent = True
        if command.attempt == self._attempt and self.state != MemberState.UNSUBSCRIBED:
            return
        self._attempt = command.attempt
        self._reset()
        self._become(MemberState.JOINING)
        self._is_urgent = True
        self._heartbeat.reset_timeouts(now)

    def _on_reconciled(self, command: Reconciled) -> None:
        if command.attempt == self._attempt and self.state in (MemberState.RECONCILING, MemberState.STABLE):
            self._request.owned = command.owned
            self._become(MemberState.ACKNOWLEDGING)
            self._is_urgent = True

    def _leave(self, operation: GroupMembershipOperation, now: float) -> None:
        """Leave with epoch -1, or -2 for a static member that will be back; a member that remains sends no more."""
        if operation is not GroupMembershipOperation.REMAIN_IN_GROUP or not self._group.is_dynamic:
            self._send_leave(now, for_good=self._group.leaves(operation))
        self._reset()

    # --- time

    def tick(self, now: float) -> None:
        """See `GroupMembership`."""
        self._farewell.tick(now)
        if self.state == MemberState.UNSUBSCRIBED:
            return
        if self._heartbeat.poll_timeout_expired(now):
            self._send_leave(now, for_good=self._group.is_dynamic)
            self._lose(
                "poll() was not called for max.poll.interval.ms: "
                "process fewer records a poll (max.poll.records) or allow more time"
            )
            return
        node = self._lookup.ensure(now)
        if node is None or self._heartbeat.in_flight:
            return
        if self._is_urgent or self._heartbeat.should_heartbeat(now):
            self._send_heartbeat(node, now)

    def time_to_next_tick(self, now: float) -> float:
        """See `GroupMembership`."""
        return min(self._farewell.time_to_next_tick(now), self._time_to_own_tick(now))

    def _time_to_own_tick(self, now: float) -> float:
        if self.state == MemberState.UNSUBSCRIBED:
            return inf
        if self._lookup.coordinator(now) is None:
            return min(self._lookup.time_to_retry(now), self._heartbeat.time_to_poll_timeout(now))
        if self._is_urgent and not self._heartbeat.in_flight:
            return 0.0
        return self._heartbeat.time_to_next_action(now)

    @property
    def is_idle(self) -> bool:
        """See `GroupMembership`."""
        return self._farewell.is_done

    # --- heartbeats

    def _send_heartbeat(self, node: Node, now: float) -> None:
        number = self._try
        request = self._request.build(self.member_epoch, is_joining=self.state == MemberState.JOINING)
        self._is_urgent = False
        if self.state == MemberState.ACKNOWLEDGING:
            self._become(MemberState.STABLE if self._target == self._request.owned else MemberState.RECONCILING)
        self._heartbeat.on_sent(now)
        self._client.send(node, request, now).add_listener(
            lambda response: self._on_answered(number, response.message),
            lambda error: self._on_failed(number, error),
        )

    def _on_answered(self, number: int, message: ConsumerGroupHeartbeatResponse) -> None:
        if number != self._try:
            return
        if message.error_code != NONE:
            self._on_failed(number, self._error(message.error_code, message.error_message))
            return
        self._heartbeat.on_received(self._client.now)
        self._heartbeat.set_interval(message.heartbeat_interval_ms / 1000, self._client.now)
        if message.member_epoch != self.member_epoch:
            self._joined_epoch = self._joined_epoch or message.member_epoch
            self.member_epoch = message.member_epoch
            self._post(MemberEpochChanged(self._attempt, Generation(self.member_epoch, self._member_id)))
        if message.assignment is not None:
            self._take_target(
                {topic.topic_id: tuple(topic.partitions) for topic in message.assignment.topic_partitions}
            )
        elif self.state == MemberState.JOINING:
            self._take_target({})

    def _take_target(self, partitions: TopicIdPartitions) -> None:
        target = {topic_id: tuple(sorted(numbers)) for topic_id, numbers in partitions.items() if numbers}
        is_new = target != self._target
        self._target = target
        if target == self._request.owned:
            self._become(MemberState.ACKNOWLEDGING if self.state == MemberState.ACKNOWLEDGING else MemberState.STABLE)
        else:
            self._become(MemberState.RECONCILING)
        if is_new:
            self._post(TargetAssigned(self._attempt, target))

    def _on_failed(self, number: int, error: KafkaError) -> None:
        if number != self._try:
            return
        now = self._client.now
        self._heartbeat.on_failed(now)
        self._request.forget_sent()
        self._lookup.note_error(error)
        is_gone = isinstance(error, GroupIdNotFoundError) and self.member_epoch > 0
        if is_gone or isinstance(error, _FENCED):
            self._lose(f"the coordinator answered a heartbeat with: {error}")
        elif isinstance(error, UnsupportedVersionError):
            self._fail(UnsupportedVersionError(self._request.not_supported()))
        elif not error.retriable:
            self._fail(error)

    def _error(self, code: int, text: str | None) -> KafkaError:
        group = self._group.group_id
        if code == GroupAuthorizationError.code:
            return GroupAuthorizationError(f"Not authorized to read in group {group!r}")
        if code == GroupMaxSizeReachedError.code:
            return GroupMaxSizeReachedError(f"Group {group!r} has as many members as it may ({self._request.MAX_SIZE})")
        if code in (FencedInstanceIdError.code, UnreleasedInstanceIdError.code):
            return for_code(
                code,
                f"Another consumer is in group {group!r} with the same group.instance.id "
                f"{self._group.group_instance_id!r}; each instance needs an id of its own",
            )
        return for_code(code, text)

    # --- commits

    def commit_as(self, asked: Generation) -> Generation:
        """See `GroupMembership`: epochs pass while a commit waits, and the present one is what counts."""
        if self.member_epoch <= 0 or asked.generation_id < self._joined_epoch:
            raise CommitFailedError(COMMIT_FAILED)
        return Generation(self.member_epoch, self._member_id)

    def commit_refused(self, sent: Generation, error: KafkaError) -> bool:
        """See `GroupMembership`; a stale epoch means that a heartbeat is about to bring a newer one, or has."""
        if self.member_epoch <= 0:
            return False
        if isinstance(error, StaleMemberEpochError):
            self._is_urgent = self._is_urgent or sent.generation_id == self.member_epoch
            return True
        if isinstance(error, _FENCED):
            # The coordinator says the same to a heartbeat, which is where the member learns that it is out.
            self._is_urgent = True
        return False

    # --- out

    def _send_leave(self, now: float, *, for_good: bool) -> None:
        node = self._lookup.coordinator(now)
        if node is not None and self.state != MemberState.UNSUBSCRIBED:
            self._farewell.send(node, self._request.leave(for_good=for_good), now)

    def take_leave(self) -> None:
        """See `GroupMembership`."""
        is_member = self.state != MemberState.UNSUBSCRIBED
        self._farewell.repeat(self._request.leave(for_good=self._group.is_dynamic) if is_member else None)
        self._lose("the consumer failed")

    def _lose(self, reason: str) -> None:
        self._reset()
        self._post(MembershipLost(self._attempt, NO_GENERATION, reason))

    def _fail(self, error: KafkaError) -> None:
        self._reset()
        self._post(MembershipFailed(error))

    def _reset(self) -> None:
        self._become(MemberState.UNSUBSCRIBED)
        self.member_epoch = self._joined_epoch = 0
        self._target = None
        self._request.forget_membership()
        self._is_urgent = False
        self._heartbeat.in_flight = False
        self._try += 1
