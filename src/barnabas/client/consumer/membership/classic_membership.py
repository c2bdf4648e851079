"""Membership in a group: join, sync, heartbeat, leave."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from barnabas import anatomy
from barnabas.client.consumer.membership.commit_errors import COMMIT_FAILED, REBALANCING
from barnabas.client.consumer.membership.group_requests import (
    PROTOCOL_TYPE,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from barnabas.client.consumer.membership.leave_group import Farewell
from barnabas.client.consumer.membership.member_states import CLASSIC_SOURCES, ClassicState, following
from barnabas.client.consumer.membership.messages import (
    NO_GENERATION,
    Assigned,
    Command,
    Event,
    Generation,
    GroupMember,
    GroupMembershipOperation,
    Join,
    LeaderElected,
    Leave,
    MembershipFailed,
    MembershipLost,
    RejoinNeeded,
    Sync,
)
from barnabas.errors import (
    NONE,
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.membership.coordinator_lookup import CoordinatorLookup
    from barnabas.client.consumer.membership.group_requests import GroupIdentity
    from barnabas.client.consumer.membership.heartbeat import Heartbeat
    from barnabas.protocol.messages.join_group_response import JoinGroupResponse
    from barnabas.protocol.messages.sync_group_response import SyncGroupResponse

_REBALANCING: Final = (ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE)
_OUT_OF_GROUP: Final = (UnknownMemberIdError, IllegalGenerationError)
# A join waits for the other members; this long after they ran out of time the coordinator itself must be gone.
_JOIN_GRACE: Final = 5.0


class ClassicMembership:
    """One member's side of the classic group protocol.

    What members tell each other is bytes to it, so it knows groups and not consumers. It belongs to the membership
    core: commands come in, events go out through `post`, and requests that fail for a passing reason are sent again.
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        group: GroupIdentity,
        heartbeat: Heartbeat,
        post: Callable[[Event], object],
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._group = group
        self._heartbeat = heartbeat
        self._post = post
        self.state = ClassicState.UNJOINED
        self.generation = NO_GENERATION
        self._join: Join | None = None
        # The number of the last Join command, which the events that follow from it carry.
        self._attempt = 0
        # Tells the answers to the present requests from late ones to requests that were given up.
        self._try = 0
        self._join_in_flight = False
        self._retry_at = 0.0
        self._failures = 0
        self._rejoin_posted = False
        self._farewell = Farewell(client, lookup)
        lookup.on_found = heartbeat.reset_session_timeout
        lookup.on_fatal = self._fail

    def _become(self, state: ClassicState) -> None:
        self.state = following(CLASSIC_SOURCES, self.state, state)
        if anatomy.active is not None:
            self._tell_state(anatomy.active, state)

    def _tell_state(self, recorder: anatomy.Recorder, state: ClassicState) -> None:
        epoch, member = self.generation.generation_id, self.generation.member_id
        client, group = self._client.client.client_id, self._group.group_id
        recorder.record(anatomy.events.MemberState(client, group, member, state.value, epoch))

    # --- commands

    def process(self, command: Command, now: float) -> None:
        """See `GroupMembership`."""
        if isinstance(command, Join):
            self.join(command)
        elif isinstance(command, Sync):
            self.sync(command, now)
        elif isinstance(command, Leave):
            self._leave(command.reason, now, command.operation)

    def join(self, command: Join) -> None:
        """Join with these protocols, again and again until it works or the member is told that it is out."""
        self._attempt = command.attempt
        if command.generation.generation_id != self.generation.generation_id:
            # The member was put out meanwhile; what it claims to own in this Join may belong to others by now.
            self._post(MembershipLost(self._attempt, self.generation, "the member was put out before it could rejoin"))
            return
        self._join = command
        self._rejoin_posted = False
        self._restart(0.0)

    def sync(self, command: Sync, now: float) -> None:
        """Bring the assignment to the coordinator."""
        if self.state == ClassicState.COMPLETING_REBALANCE and command.attempt == self._attempt:
            self._send_sync(dict(command.assignments), now)

    # --- time

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._farewell.tick(now)
        if self.state == ClassicState.PREPARING_REBALANCE:
            self._join_if_due(now)
        elif self.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            self._heartbeat_if_due(now)

    def time_to_next_tick(self, now: float) -> float:
        """Seconds until `tick` has something to do, answers apart."""
        return min(self._farewell.time_to_next_tick(now), self._time_to_own_tick(now))

    def _time_to_own_tick(self, now: float) -> float:
        is_preparing = self.state == ClassicState.PREPARING_REBALANCE
        if self.state == ClassicState.UNJOINED or (is_preparing and self._join_in_flight):
            return inf
        is_known = self._lookup.coordinator(now) is not None
        coordinator_in = 0.0 if is_known else self._lookup.time_to_retry(now)
        if is_preparing:
            return max(0.0, self._retry_at - now, coordinator_in)
        if is_known:
            return self._heartbeat.time_to_next_action(now)
        return min(coordinator_in, self._heartbeat.time_to_poll_timeout(now))

    def _join_if_due(self, now: float) -> None:
        if self._join_in_flight or self._join is None or now < self._retry_at:
            return
        node = self._lookup.ensure(now)
        if node is None:
            return
        self._join_in_flight = True
        number = self._try
        request = join_group(self._group, self.generation.member_id, self._join.protocols, self._join.reason)
        timeout = self._group.rebalance_timeout_ms / 1000 + _JOIN_GRACE
        self._client.send(node, request, now, timeout=max(timeout, self._client.request_timeout)).add_listener(
            lambda response: self._on_joined(number, response.message),
            lambda error: self._on_join_failed(number, error),
        )

    def _heartbeat_if_due(self, now: float) -> None:
        if self._heartbeat.poll_timeout_expired(now):
            self._leave("consumer poll timeout has expired.", now)
            self._post(
                MembershipLost(
                    self._attempt,
                    self.generation,
                    "poll() was not called for max.poll.interval.ms: "
                    "process fewer records a poll (max.poll.records) or allow more time",
                )
            )
            return
        node = self._lookup.ensure(now)
        if node is None:
            return
        if self._heartbeat.session_timeout_expired(now):
            self._lookup.mark_unknown(disconnect=True)
            self._heartbeat.reset_session_timeout(now)
        elif self._heartbeat.should_heartbeat(now):
            self._heartbeat.on_sent(now)
            sent = self.generation
            self._client.send(node, heartbeat(self._group, sent), now).add_listener(
                lambda response: self._on_heartbeat_answered(sent, response.message.error_code),
                self._on_heartbeat_failed,
            )

    # --- joining

    def _on_joined(self, number: int, message: JoinGroupResponse) -> None:
        if number != self._try or self.state != ClassicState.PREPARING_REBALANCE:
            return
        self._join_in_flight = False
        if message.error_code == MemberIdRequiredError.code:
            self.generation = Generation(-1, message.member_id)
            return
        if message.error_code != NONE:
            self._on_join_failed(number, self._error(message.error_code))
            return
        if message.protocol_type not in (None, PROTOCOL_TYPE):
            self._fail(InconsistentGroupProtocolError(f"The group is of type {message.protocol_type!r}"))
            return
        self._become(ClassicState.COMPLETING_REBALANCE)
        self.generation = Generation(message.generation_id, message.member_id, message.protocol_name)
        self._heartbeat.reset_timeouts(self._client.now)
        if message.leader != message.member_id:
            self._send_sync({}, self._client.now)
            return
        members = [
            GroupMember(member.member_id, member.group_instance_id, bytes(member.metadata))
            for member in message.members
        ]
        self._post(LeaderElected(self._attempt, self.generation, members, message.skip_assignment))

    def _on_join_failed(self, number: int, error: KafkaError) -> None:
        if number != self._try or self.state not in _REBALANCING:
            return
        self._lookup.note_error(error)
        if isinstance(error, _OUT_OF_GROUP):
            self._lose(f"the coordinator refused the member: {error}", error)
        elif isinstance(error, RebalanceInProgressError):
            self._restart(0.0)
        elif error.retriable:
            wait = self._heartbeat.backoff(self._failures)
            self._failures += 1
            self._restart(self._client.now + wait)
        else:
            self._fail(error)

    def _restart(self, at: float) -> None:
        self._become(ClassicState.PREPARING_REBALANCE)
        self._try += 1
        self._join_in_flight = False
        self._retry_at = at

    def _send_sync(self, assignments: dict[str, bytes], now: float) -> None:
        node = self._lookup.coordinator(now)
        number = self._try
        if node is None:
            self._restart(now)
            return
        self._client.send(node, sync_group(self._group, self.generation, assignments), now).add_listener(
            lambda response: self._on_synced(number, response.message),
            lambda error: self._on_join_failed(number, error),
        )

    def _on_synced(self, number: int, message: SyncGroupResponse) -> None:
        if number != self._try or self.state != ClassicState.COMPLETING_REBALANCE:
            return
        if message.error_code != NONE:
            self._on_join_failed(number, self._error(message.error_code))
        elif message.protocol_name not in (None, self.generation.protocol_name):
            self._fail(InconsistentGroupProtocolError(f"The group chose {message.protocol_name!r}, which was not it"))
        else:
            self._become(ClassicState.STABLE)
            self._join = None
            self._failures = 0
            self._post(Assigned(self._attempt, self.generation, bytes(message.assignment)))

    # --- heartbeats

    def _on_heartbeat_answered(self, sent: Generation, code: int) -> None:
        now = self._client.now
        if code == NONE:
            self._heartbeat.on_received(now)
            return
        error = self._error(code)
        if isinstance(error, RebalanceInProgressError):
            self._heartbeat.on_received(now)
            self.request_rejoin("group is already rebalancing")
        elif isinstance(error, (*_OUT_OF_GROUP, FencedInstanceIdError)):
            self._heartbeat.on_received(now)
            if sent == self.generation and self.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
                self._lose(f"the coordinator answered a heartbeat with: {error}", error)
        elif error.retriable:
            self._on_heartbeat_failed(error)
        else:
            self._heartbeat.on_failed(now)
            self._fail(error)

    def _on_heartbeat_failed(self, error: KafkaError) -> None:
        self._lookup.note_error(error)
        self._heartbeat.on_failed(self._client.now)

    # --- in and out

    def request_rejoin(self, reason: str) -> None:
        """Tell the application's core, once, that the group rebalances."""
        if self.state == ClassicState.STABLE and not self._rejoin_posted:
            self._rejoin_posted = True
            self._post(RejoinNeeded(self._attempt, reason))

    def commit_as(self, asked: Generation) -> Generation:
        """See `GroupMembership`."""
        if self.state == ClassicState.STABLE and self.generation == asked:
            return asked
        if self.state in _REBALANCING:
            raise RebalanceInProgressError(REBALANCING)
        raise CommitFailedError(COMMIT_FAILED)

    def commit_refused(self, sent: Generation, error: KafkaError) -> bool:
        """See `GroupMembership`."""
        if isinstance(error, RebalanceInProgressError):
            self.request_rejoin("offset commit failed since group is already rebalancing")
        elif sent == self.generation and self.state == ClassicState.STABLE:
            self._lose(f"the coordinator refused a commit: {error}", error)
        return False

    def _leave(
        self, reason: str, now: float, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT
    ) -> None:
        node = self._lookup.coordinator(now)
        goes = self._group.leaves(operation)
        if goes and node is not None and self.state != ClassicState.UNJOINED and self.generation.member_id:
            request = leave_group(self._group, self.generation.member_id, reason)
            if self._join_in_flight or self.state == ClassicState.COMPLETING_REBALANCE:
                # A broker looks at what follows on the same connection only when the others have joined.
                self._farewell.send_on_new_connection(node, request)
            else:
                self._farewell.send(node, request, now)
        self._reset(NO_GENERATION)

    def take_leave(self) -> None:
        """See `GroupMembership`."""
        is_member = self.generation.member_id and self._group.leaves(GroupMembershipOperation.DEFAULT)
        reason = "the consumer failed"
        self._farewell.repeat(leave_group(self._group, self.generation.member_id, reason) if is_member else None)
        self._reset(NO_GENERATION)
        self._post(MembershipLost(self._attempt, NO_GENERATION, reason))

    @property
    def is_idle(self) -> bool:
        """See `GroupMembership`."""
        return self._farewell.is_done

    def _lose(self, reason: str, error: KafkaError) -> None:
        keeps_id = isinstance(error, IllegalGenerationError)
        self._reset(Generation(-1, self.generation.member_id) if keeps_id else NO_GENERATION)
        if isinstance(error, FencedInstanceIdError):
            self._post(MembershipFailed(error))
        self._post(MembershipLost(self._attempt, self.generation, reason))

    def _fail(self, error: KafkaError) -> None:
        self._try += 1
        self._join_in_flight = False
        self._join = None
        if self.state != ClassicState.STABLE:
            self._become(ClassicState.UNJOINED)
        self._post(MembershipFailed(error))

    def _reset(self, generation: Generation) -> None:
        self._become(ClassicState.UNJOINED)
        self.generation = generation
        self._join = None
        self._rejoin_posted = False
        self._try += 1
        self._join_in_flight = False

    def _error(self, code: int) -> KafkaError:
        group = self._group.group_id
        if code == GroupAuthorizationError.code:
            return GroupAuthorizationError(f"Not authorized to read in group {group!r}")
        if code == GroupMaxSizeReachedError.code:
            return GroupMaxSizeReachedError(f"Group {group!r} has as many members as it may (group.max.size)")
        if code == FencedInstanceIdError.code:
            return FencedInstanceIdError(
                f"Another consumer joined group {group!r} with the same group.instance.id "
                f"{self._group.group_instance_id!r}; each instance needs an id of its own"
            )
        return for_code(code)
