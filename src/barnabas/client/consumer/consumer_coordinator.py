"""The application's side of group membership."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    COOPERATIVE,
    EAGER,
    ConsumerPartitionAssignor,
    Subscription,
)
from barnabas.client.consumer.consumer_protocol import (
    deserialize_assignment,
    serialize_subscription,
)
from barnabas.client.consumer.group_leader import GroupLeader
from barnabas.client.consumer.membership_messages import (
    NO_GENERATION,
    Assigned,
    Event,
    Generation,
    Join,
    LeaderElected,
    Leave,
    MembershipFailed,
    MembershipLost,
    OffsetsCommitted,
    OffsetsFetched,
    RejoinNeeded,
    Stop,
    Sync,
)
from barnabas.client.consumer.offset_commits import OffsetCommitCallback, OffsetCommits, Offsets
from barnabas.client.consumer.offsets import ConsumerGroupMetadata, FetchPosition
from barnabas.client.consumer.rebalance_listener_invoker import ConsumerRebalanceListenerInvoker
from barnabas.client.consumer.steps import Steps
from barnabas.errors import (
    CommitFailedError,
    ConfigError,
    IllegalStateError,
    KafkaError,
    RebalanceInProgressError,
)

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.membership_core import MembershipCore
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.protocol.topic_partition import TopicPartition

log = logging.getLogger(__name__)


class ConsumerCoordinator:
    """Takes the events of the membership core, deals partitions out as leader, runs listeners, asks for commits.

    Belongs to the application's thread; nothing here waits. `poll` does what can be done now, and is called again when
    an event wakes the application's `NetworkClient`.
    """

    def __init__(
        self,
        membership: MembershipCore,
        subscriptions: SubscriptionState,
        metadata: ConsumerMetadata,
        assignors: Sequence[ConsumerPartitionAssignor],
        *,
        group_id: str,
        group_instance_id: str | None,
        rack_id: str | None,
        start_heartbeat_thread: Callable[[], Callable[[float], object]],
        auto_commit_interval: float | None,
        rebalance_timeout: float,
        api_timeout: float,
        retry_backoff: float,
    ) -> None:
        self._membership = membership
        self._subscriptions = subscriptions
        self._metadata = metadata
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = _common_protocol(assignors)
        self._group_id = group_id
        self._group_instance_id = group_instance_id
        self._rack_id = rack_id
        self._start_heartbeat_thread = start_heartbeat_thread
        self._join_heartbeat_thread: Callable[[float], object] | None = None
        self._auto_commit_interval = auto_commit_interval
        self._rebalance_timeout = rebalance_timeout
        self._api_timeout = api_timeout
        self._retry_backoff = retry_backoff
        self.commits = OffsetCommits(membership)
        self.listener = ConsumerRebalanceListenerInvoker(subscriptions)
        self.consumed_offsets: Callable[[], Offsets] = subscriptions.all_consumed
        self._events: deque[Event] = deque()
        self._failure: KafkaError | None = None
        self._generation = NO_GENERATION
        # Numbers the joins, so that events of one that was given up are told from those of the present one.
        self._attempt = 0
        self._is_joining = False
        self._rejoin_needed = True
        self._rejoin_reason = ""
        self._needs_join_prepare = True
        self._prepare_deadline: float | None = None
        self._prepare_commit: int | None = None
        self._leader: GroupLeader | None = None
        self._joined_subscription: frozenset[str] | None = None
        # As leader: the partition counts that the present assignment was made from.
        self._assigned_from: dict[str, int | None] | None = None
        self._counts: dict[str, int | None] = {}
        self._counts_version = -1
        self._needed_version = -1
        self._next_auto_commit_at = float("inf")
        self._committed_request: tuple[int, Generation] | None = None

    # --- the heartbeat thread

    def ensure_heartbeat_thread(self) -> None:
        """Have the membership core driven, from the first call on."""
        if self._join_heartbeat_thread is None:
            self._join_heartbeat_thread = self._start_heartbeat_thread()

    @property
    def has_heartbeat_thread(self) -> bool:
        """Whether the membership core is driven."""
        return self._join_heartbeat_thread is not None

    def stop_heartbeat_thread(self, now: float, deadline: float) -> None:
        """Let the membership core finish what it was asked for, and wait for it until `deadline`."""
        if self._join_heartbeat_thread is not None:
            self._membership.send(Stop(deadline))
            self._join_heartbeat_thread(max(0.0, deadline - now))
        else:
            self._membership.close()

    # --- poll

    def poll(self, now: float) -> Steps[None]:
        """Do all that is due: listeners, callbacks, steps of a rebalance, an automatic commit.

        Raises what a listener raised, what a callback raised, or an error of the group that does not pass.
        """
        self._membership.heartbeat.poll(now)
        self.raise_failure()
        if self._membership.events or self._events:
            self.take_events()
            while self._events:
                yield from self._handle(self._events.popleft(), now)
        if self.commits.has_completed:
            yield from self.commits.invoke_completed_callbacks()
        if self._subscriptions.has_auto_assigned_partitions:
            self._take_in_metadata()
            if self._leader is not None:
                self._step_leading(self._leader)
            elif not self._is_joining and self._is_rejoin_needed():
                yield from self._step_joining(now)
        if now >= self._next_auto_commit_at:
            self._auto_commit_async(now)

    def time_to_next_poll(self, now: float) -> float:
        """Seconds until `poll` has something to do, events apart."""
        return max(0.0, self._next_auto_commit_at - now)

    def raise_failure(self) -> None:
        """Raise the error that ended the membership core, if one did."""
        if self._membership.is_done and self._failure is not None:
            raise self._failure

    def take_events(self) -> None:
        """Take in what the membership core posted: results at once, the rest is kept for `poll`."""
        events = self._membership.events
        while events:
            event = events.popleft()
            if isinstance(event, OffsetsCommitted | OffsetsFetched):
                self.commits.completed(event)
                continue
            if isinstance(event, MembershipFailed):
                self._failure = event.error
            self._events.append(event)

    def _handle(self, event: Event, now: float) -> Steps[None]:
        if isinstance(event, MembershipFailed):
            self._is_joining = False
            self._leader = None
            self._request_rejoin(f"rebalance failed due to {type(event.error).__name__}")
            raise event.error
        if isinstance(event, OffsetsCommitted | OffsetsFetched) or event.attempt != self._attempt:
            return
        if isinstance(event, LeaderElected):
            self._generation = event.generation
            self._leader = GroupLeader(event, self._subscriptions, self._metadata)
        elif isinstance(event, Assigned):
            self._generation = event.generation
            yield from self._on_join_complete(event, now)
        elif isinstance(event, RejoinNeeded):
            self._request_rejoin(event.reason)
        else:
            self._on_lost(event)

    def _on_lost(self, event: MembershipLost) -> None:
        log.info("Group %s: %s", self._group_id, event.reason)
        self._generation = event.generation
        self._is_joining = False
        self._leader = None
        self._needs_join_prepare = True
        self._request_rejoin(event.reason)

    # --- joining

    def _request_rejoin(self, reason: str) -> None:
        self._rejoin_reason = reason
        self._rejoin_needed = True

    def _is_rejoin_needed(self) -> bool:
        if not self._rejoin_needed:
            if self._assigned_from not in (None, self._counts):
                self._request_rejoin("cached metadata has changed")
            elif self._joined_subscription not in (None, self._subscriptions.subscription):
                self._request_rejoin("subscription has changed")
        return self._rejoin_needed

    def _take_in_metadata(self) -> None:
        """Note new topics of a pattern, and the partition counts of all topics; once for each update."""
        version = self._metadata.update_version
        if version == self._counts_version:
            return
        self._counts_version = version
        cluster = self._metadata.fetch()
        if self._subscriptions.has_pattern_subscription:
            matching = filter(self._subscriptions.matches_subscribed_pattern, cluster.topics)
            self._subscriptions.subscribe_from_pattern(matching)
        topics = self._subscriptions.metadata_topics
        self._counts = {topic: cluster.partition_count_for_topic(topic) for topic in topics}

    def require_metadata_after(self, version: int) -> None:
        """Do not join before the metadata is newer than this."""
        self._needed_version = version
        self._counts_version = -1

    def _step_joining(self, now: float) -> Steps[None]:
        if self._metadata.update_version <= self._needed_version:
            return
        if self._needs_join_prepare:
            if not (yield from self._on_join_prepare(now)):
                return
            self._needs_join_prepare = False
            self.listener.raise_first_error()
        self._attempt += 1
        self._is_joining = True
        self._joined_subscription = self._subscriptions.subscription
        self._membership.send(Join(self._attempt, self._generation, self._protocols(), self._rejoin_reason))

    def _protocols(self) -> list[tuple[str, bytes]]:
        topics = sorted(self._subscriptions.subscription)
        return [
            (
                name,
                serialize_subscription(
                    Subscription(
                        topics=topics,
                        user_data=assignor.subscription_user_data(topics),
                        owned_partitions=sorted(self._subscriptions.assigned_partitions),
                        generation_id=self._generation.generation_id,
                        rack_id=self._rack_id,
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]

    def _on_join_prepare(self, now: float) -> Steps[bool]:
        """Commit and give up what has to be given up before joining; False while the commit is under way."""
        if not self._commit_before_join(now):
            return False
        owned = self._subscriptions.assigned_partitions
        if self._generation.is_unknown:
            if owned:
                yield from self.listener.lost(owned)
                self._subscriptions.assign_from_subscribed(())
        elif self._protocol == EAGER:
            yield from self.listener.revoked(owned)
            self._subscriptions.assign_from_subscribed(())
        else:
            kept = {partition for partition in owned if partition.topic in self._subscriptions.subscription}
            if kept != owned:
                yield from self.listener.revoked(owned - kept)
                self._subscriptions.assign_from_subscribed(sorted(kept))
        self._subscriptions.reset_group_subscription()
        self._assigned_from = None
        self._counts_version = -1
        return True

    def _commit_before_join(self, now: float) -> bool:
        """Commit automatically what was handed out, once, waiting for the outcome over as many polls as it takes."""
        if self._auto_commit_interval is None or self._generation.is_unknown:
            return True
        if self._prepare_deadline is None:
            self._prepare_deadline = now + self._rebalance_timeout
            if self._protocol == EAGER:
                self._subscriptions.mark_pending_revocation(self._subscriptions.assigned_partitions)
            offsets = self.consumed_offsets()
            self._prepare_commit = (
                self.commits.commit(offsets, self._generation, self._prepare_deadline) if offsets else None
            )
        if self._prepare_commit is not None:
            result = self.commits.take_result(self._prepare_commit)
            if result is None and now < self._prepare_deadline:
                return False
            if result is None or result.error is not None:
                log.warning("Committing offsets before a rebalance failed: %s", result and result.error)
        self._prepare_deadline = self._prepare_commit = None
        return True

    # --- the rebalance goes on

    def _step_leading(self, leader: GroupLeader) -> None:
        if not leader.is_ready:
            return
        self._leader = None
        try:
            assignments = leader.assign(self._assignor(leader.event.generation), self._protocol)
        except Exception:
            # The coordinator waits for an assignment that will not come: begin again with the next poll.
            self._is_joining = False
            self._request_rejoin("the leader could not make an assignment")
            raise
        self._take_in_metadata()
        self._assigned_from = self._counts
        self._membership.send(Sync(self._attempt, leader.event.generation, assignments))

    def _assignor(self, generation: Generation) -> ConsumerPartitionAssignor:
        assignor = self._assignors.get(generation.protocol_name or "")
        if assignor is None:
            raise IllegalStateError(
                f"Group {self._group_id!r} chose assignor {generation.protocol_name!r}, which this consumer did not "
                f"offer; it has {', '.join(self._assignors)}"
            )
        return assignor

    def _on_join_complete(self, event: Assigned, now: float) -> Steps[None]:
        self._is_joining = False
        self._needs_join_prepare = True
        self._rejoin_needed = False
        assignor = self._assignor(event.generation)
        assignment = deserialize_assignment(event.assignment)
        assigned, owned = set(assignment.partitions), self._subscriptions.assigned_partitions
        if not self._subscriptions.check_assignment_matched_subscription(assigned):
            self._request_rejoin("received assignment does not match the current subscription")
            return
        if self._protocol == COOPERATIVE and owned - assigned:
            yield from self.listener.revoked(owned - assigned)
            self._request_rejoin("need to revoke partitions and re-join")
        yield from self.listener.call(lambda: assignor.on_assignment(assignment, self.group_metadata()))
        self._subscriptions.assign_from_subscribed(sorted(assigned))
        self._schedule_auto_commit(now)
        log.info("Group %s: assigned %s in generation %s", self._group_id, sorted(assigned), event.generation)
        yield from self.listener.assigned(assigned - owned)
        self.listener.raise_first_error()

    # --- leaving

    def leave(self, reason: str) -> Steps[None]:
        """Give all partitions up and leave; a static member stays in the group until its session ends."""
        owned = self._subscriptions.assigned_partitions
        if self._subscriptions.has_auto_assigned_partitions and owned:
            if self._generation.is_unknown or self._is_joining:
                yield from self.listener.lost(owned)
            else:
                yield from self.listener.revoked(owned)
            self._subscriptions.assign_from_subscribed(())
        self._membership.send(Leave(reason))
        self._forget_membership()
        self.listener.raise_first_error()

    def _forget_membership(self) -> None:
        self._attempt += 1
        self._generation = NO_GENERATION
        self._is_joining = False
        self._leader = None
        self._needs_join_prepare = True
        self._prepare_deadline = self._prepare_commit = None
        self._joined_subscription = self._assigned_from = None
        self._next_auto_commit_at = float("inf")
        self._request_rejoin("consumer joins")

    # --- offsets

    def committable_generation(self) -> Generation | None:
        """The generation to commit in; None for partitions assigned by hand.

        Raises `RebalanceInProgressError` while joining, `CommitFailedError` when the member is out of the group.
        """
        if not self._subscriptions.has_auto_assigned_partitions:
            return None
        if self._is_joining:
            raise RebalanceInProgressError(
                "The offsets were not committed: the group is rebalancing. Call poll() to complete the rebalance, then "
                "commit again"
            )
        if self._generation.is_unknown:
            raise CommitFailedError(
                "The offsets were not committed: this consumer is not part of its group; it was put out of it, or has "
                "not joined it yet (poll() does that)"
            )
        return self._generation

    def commit_async(self, offsets: Offsets, callback: OffsetCommitCallback | None, now: float) -> None:
        """Commit without waiting; what stands against it is told to the callback too."""
        try:
            generation = self.committable_generation()
        except KafkaError as error:
            self.commits.fail_async(offsets, callback, error)
            return
        self.commits.commit_async(offsets, generation, callback, now + self._api_timeout)

    def auto_commit_now(self, now: float) -> None:
        """Commit automatically, out of turn: the partitions assigned by hand are about to change."""
        self._auto_commit_async(now)

    def _schedule_auto_commit(self, now: float) -> None:
        if self._auto_commit_interval is not None:
            self._next_auto_commit_at = now + self._auto_commit_interval

    def _auto_commit_async(self, now: float) -> None:
        self._schedule_auto_commit(now)
        offsets = self.consumed_offsets()
        if offsets:
            self.commit_async(offsets, lambda _, error: self._auto_committed(error, now), now)

    def _auto_committed(self, error: KafkaError | None, now: float) -> None:
        if error is None:
            return
        log.warning("Group %s: an automatic commit failed: %s", self._group_id, error)
        if error.retriable:
            self._next_auto_commit_at = min(self._next_auto_commit_at, now + self._retry_backoff)

    @property
    def auto_commits(self) -> bool:
        """Whether offsets are committed automatically."""
        return self._auto_commit_interval is not None

    def refresh_committed_offsets(self, now: float) -> bool:
        """Set the positions of new partitions from the group's committed offsets; False while they are looked up."""
        missing = self._subscriptions.initializing_partitions
        if self._committed_request is not None:
            number, generation = self._committed_request
            result = self.commits.take_result(number)
            if result is None and generation == self._generation:
                return not missing
            self._committed_request = None
            self.commits.forget(number)
            if isinstance(result, OffsetsFetched) and generation == self._generation:
                self._take_committed_offsets(result, missing)
                return True
        if not missing:
            return True
        self._committed_request = (self.commits.fetch(missing, now + self._api_timeout), self._generation)
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

    def group_metadata(self) -> ConsumerGroupMetadata:
        """What identifies this member."""
        generation = self._generation
        return ConsumerGroupMetadata(
            self._group_id, generation.generation_id, generation.member_id, self._group_instance_id
        )


def _common_protocol(assignors: Sequence[ConsumerPartitionAssignor]) -> str:
    """The best way of rebalancing that all assignors can do."""
    common = set.intersection(*(set(assignor.protocols) for assignor in assignors)) if assignors else {EAGER}
    if not common:
        raise ConfigError(
            "The assignors in partition.assignment.strategy have no way of rebalancing in common: "
            + ", ".join(f"{assignor.name} ({'/'.join(assignor.protocols)})" for assignor in assignors)
        )
    return COOPERATIVE if COOPERATIVE in common else EAGER
