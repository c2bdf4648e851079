"""The application's side of membership in a group, as far as it is the same in both protocols."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.consumer.consumer_metrics import RebalanceMetrics
from barnabas.client.consumer.coordinator.auto_commits import AutoCommits
from barnabas.client.consumer.coordinator.consumer_rebalance_listener_invoker import ConsumerRebalanceListenerInvoker
from barnabas.client.consumer.coordinator.offset_commits import OffsetCommitCallback, OffsetCommits, Offsets
from barnabas.client.consumer.membership.commit_errors import NOT_A_MEMBER, REBALANCING
from barnabas.client.consumer.membership.messages import (
    NO_GENERATION,
    Event,
    Generation,
    GroupMembershipOperation,
    Leave,
    OffsetsCommitted,
    OffsetsFetched,
    Stop,
)
from barnabas.client.consumer.offsets import ConsumerGroupMetadata, FetchPosition
from barnabas.client.steps import Steps, call
from barnabas.errors import CommitFailedError, KafkaError, RebalanceInProgressError
from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.coordinator.coordinator_settings import CoordinatorSettings
    from barnabas.client.consumer.membership.core import MembershipCore
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.network.network_client import NetworkClient
    from barnabas.protocol.topic_partition import TopicPartition

log = client_logger("barnabas.consumer")


class CoordinatorParts(NamedTuple):
    """What a coordinator works with.

    `start_heartbeat_thread()` gives what waits for the end of that thread; `on_commit` hears of every commit.
    """

    membership: MembershipCore
    subscriptions: SubscriptionState
    metadata: ConsumerMetadata
    settings: CoordinatorSettings
    rebalances: RebalanceMetrics
    start_heartbeat_thread: Callable[[], Callable[[float], object]]
    on_commit: Callable[[Offsets], object]


class Coordinator:
    """Takes the events of the membership core, runs listeners, asks for commits.

    Belongs to the application's thread; nothing here waits. `poll` does what can be done now, and is called again when
    an event wakes the application's `NetworkClient`. What a rebalance takes is up to the subclasses:
    `ClassicCoordinator` for the classic protocol, `ReconcilingCoordinator` for the consumer protocol.
    """

    def __init__(
        self,
        parts: CoordinatorParts,
    ) -> None:
        settings, membership, subscriptions = parts.settings, parts.membership, parts.subscriptions
        self._membership = membership
        self._subscriptions = subscriptions
        self._metadata = parts.metadata
        self._settings = settings
        self._start_heartbeat_thread = parts.start_heartbeat_thread
        self._join_heartbeat_thread: Callable[[float], object] | None = None
        self.commits = OffsetCommits(membership, parts.on_commit)
        self._rebalances = parts.rebalances
        self.listener = ConsumerRebalanceListenerInvoker(subscriptions, parts.rebalances)
        self.auto_commits = AutoCommits(settings, self.commits, subscriptions.all_consumed, self.commit_async)
        self._events: deque[Event] = deque()
        self._generation = NO_GENERATION
        # Numbers the joins, so that events of one that was given up are told from those of the present one.
        self._attempt = 0
        self._needed_version = -1
        self._committed_request: tuple[int, int] | None = None
        # Numbers the assignments: what was looked up under an earlier one may be out of date.
        self._assignment_number = 0
        # An exception from outside (a signal handler's, `sys.exit` in a listener) ended a step of a rebalance.
        self._is_torn = False
        # Another consumer has this one's group.instance.id: this one stays out until it is unsubscribed.
        self._fenced: KafkaError | None = None

    # --- the heartbeat thread

    def ensure_heartbeat_thread(self) -> None:
        """Have the membership core driven, from the first call on."""
        if self._join_heartbeat_thread is None:
            self._join_heartbeat_thread = self._start_heartbeat_thread()

    def do_aside(self, work: Callable[[float], float]) -> None:
        """Have this done in each turn of the membership core; it waits for nothing, and returns when to be called."""
        self._membership.aside = work

    @property
    def has_heartbeat_thread(self) -> bool:
        """Whether the membership core is driven."""
        return self._join_heartbeat_thread is not None

    def stop_heartbeat_thread(self, now: float, deadline: float) -> Steps[None]:
        """Let the membership core finish what it was asked for, and wait for it until `deadline`."""
        if self._join_heartbeat_thread is not None:
            self._membership.send(Stop(deadline))
            yield from call(self._join_heartbeat_thread, max(0.0, deadline - now))
        else:
            self._membership.close()

    def abandon(self, operation: GroupMembershipOperation, deadline: float) -> None:
        """Have the membership core leave and end by itself, without waiting for it."""
        if self._join_heartbeat_thread is None:
            self._membership.close()
            return
        self.leave_at_once(operation)
        self._membership.send(Stop(deadline))

    def leave_at_once(self, operation: GroupMembershipOperation) -> None:
        """Have the membership core leave, without a word to the listener; a second time does nothing."""
        if self._subscriptions.has_auto_assigned_partitions:
            self._membership.send(Leave("the consumer was closed", operation))

    # --- poll

    def poll(self, now: float) -> Steps[None]:
        """Do all that is due: listeners, callbacks, steps of a rebalance, an automatic commit.

        Raises what a listener raised, what a callback raised, or an error of the group that does not pass.
        """
        self._membership.heartbeat.poll(now)
        self.raise_failure()
        if self._is_torn:
            yield from self._recover(now)
        if self._membership.events or self._events:
            self.take_events()
            yield from self._whole(self._handle_events(now))
        if self.commits.has_completed:
            yield from self.commits.invoke_completed_callbacks()
        if self._subscriptions.has_auto_assigned_partitions:
            yield from self._whole(self._rebalance(now))
        self.auto_commits.tick(now)

    def _whole(self, steps: Steps[None]) -> Steps[None]:
        """Take steps of a rebalance, which raise a `KafkaError` only where nothing is half done."""
        self._is_torn = True
        try:
            yield from steps
        except KafkaError:
            self._is_torn = False
            raise
        self._is_torn = False

    def begin_anew(self) -> None:
        """Ask for the committed offsets once more: their answer may have been taken in part."""
        request, self._committed_request = self._committed_request, None
        if request is not None:
            self.commits.forget(request[0])

    def _handle_events(self, now: float) -> Steps[None]:
        while self._events:
            yield from self._handle(self._events.popleft(), now)

    def _recover(self, now: float) -> Steps[None]:
        """Join again: a step of a rebalance was interrupted, and may have been done in part."""
        raise NotImplementedError

    def _handle(self, event: Event, now: float) -> Steps[None]:
        """Take one event of the membership core."""
        raise NotImplementedError

    def _rebalance(self, now: float) -> Steps[None]:
        """Go on with joining and rebalancing."""
        raise NotImplementedError

    def _is_rebalancing(self) -> bool:
        """Whether commits have to wait for the end of a rebalance."""
        raise NotImplementedError

    def enforce_rebalance(self, reason: str) -> None:
        """Have the group rebalance, or say why that cannot be asked for."""
        raise NotImplementedError

    def _forget_membership(self) -> None:
        """Begin anew with the next `poll`."""
        self._attempt += 1
        self._assignment_number += 1
        self._generation = NO_GENERATION
        self.auto_commits.stop()

    def time_to_next_poll(self, now: float) -> float:
        """Seconds until `poll` has something to do, events apart."""
        return self.auto_commits.time_to_next(now)

    def raise_failure(self) -> None:
        """Raise the error that ended the membership core, if one did."""
        failure = self._membership.failure or self._fenced
        if failure is not None:
            raise failure

    def take_events(self) -> None:
        """Take in what the membership core posted: results at once, the rest is kept for `poll`."""
        events = self._membership.events
        while events:
            # Taken off last: an interruption must not lose one.
            event = events[0]
            if isinstance(event, OffsetsCommitted | OffsetsFetched):
                self.commits.on_completed(event)
            else:
                self._events.append(event)
            events.popleft()

    def require_metadata_after(self, version: int) -> None:
        """Do not join before the metadata is newer than this."""
        self._needed_version = version

    # --- leaving

    def leave(self, reason: str, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> Steps[None]:
        """Give all partitions up and leave; a static member stays in the group until its session ends."""
        owned = self._subscriptions.assigned_partitions
        try:
            if self._subscriptions.has_auto_assigned_partitions and owned:
                if self._generation.is_unknown or self._is_rebalancing():
                    yield from self.listener.invoke_partitions_lost(owned)
                else:
                    yield from self.listener.invoke_partitions_revoked(owned)
                self._subscriptions.assign_from_subscribed(())
        finally:
            # Even when the listener fails, the group must not wait for this member.
            self._membership.send(Leave(reason, operation))
            self._fenced = None
            self._forget_membership()
        self.listener.raise_first_error()

    # --- offsets

    def committable_generation(self) -> Generation | None:
        """Return the generation to commit in; None for partitions assigned by hand.

        Raises `RebalanceInProgressError` while the classic protocol joins, `CommitFailedError` when the member is out
        of the group.
        """
        if not self._subscriptions.has_auto_assigned_partitions:
            return None
        if self._is_rebalancing():
            raise RebalanceInProgressError(REBALANCING)
        if self._generation.is_unknown:
            raise CommitFailedError(NOT_A_MEMBER)
        return self._generation

    def commit_async(self, offsets: Offsets, callback: OffsetCommitCallback | None, now: float) -> None:
        """Commit without waiting; what stands against it is told to the callback too."""
        try:
            generation = self.committable_generation()
        except KafkaError as error:
            self.commits.fail_async(offsets, callback, error)
            return
        self.commits.commit_async(offsets, generation, callback, now + self._settings.api_timeout)

    def _note_new_assignment(self, now: float) -> None:
        self._assignment_number += 1
        self._rebalances.on_end(now)
        self.auto_commits.schedule(now)

    def refresh_committed_offsets(self, now: float) -> bool:
        """Set the positions of new partitions from the group's committed offsets; False while they are looked up."""
        missing = self._subscriptions.initializing_partitions
        if self._committed_request is not None:
            number, assignment_number = self._committed_request
            result = self.commits.take_result(number)
            if result is None and assignment_number == self._assignment_number:
                return not missing
            self._committed_request = None
            self.commits.forget(number)
            if isinstance(result, OffsetsFetched) and assignment_number == self._assignment_number:
                self._take_committed_offsets(result, missing)
                return True
        if not missing:
            return True
        self._committed_request = (
            self.commits.fetch(missing, now + self._settings.api_timeout),
            self._assignment_number,
        )
        return False

    def _take_committed_offsets(self, result: OffsetsFetched, missing: set[TopicPartition]) -> None:
        if result.error is not None:
            if result.error.retriable:
                return
            raise result.error
        for partition, offset in result.offsets.items():
            if offset is not None and partition in missing:
                if offset.leader_epoch >= 0:
                    self._metadata.update_last_seen_epoch_if_newer(partition, offset.leader_epoch)
                leader = self._metadata.leader_and_epoch(partition)
                position = FetchPosition(offset.offset, offset.leader_epoch, leader)
                self._subscriptions.seek_unvalidated(partition, position)

    def metrics(self, now: float) -> dict[str, float]:
        """Kafka's consumer-coordinator-metrics."""
        return {
            **self._membership.metrics(now),
            **self._rebalances.as_dict(now),
        }

    @property
    def network_client(self) -> NetworkClient:
        """The connections of the membership core; only that sends through them."""
        return self._membership.network_client

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return what identifies this member."""
        generation = self._generation
        return ConsumerGroupMetadata(
            self._settings.group_id, generation.generation_id, generation.member_id, self._settings.group_instance_id
        )
