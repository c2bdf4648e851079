"""The application's side of membership in a group of the classic protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    COOPERATIVE,
    EAGER,
    ConsumerPartitionAssignor,
    Subscription,
)
from barnabas.client.consumer.coordinator.consumer_protocol import (
    deserialize_assignment,
    serialize_subscription,
)
from barnabas.client.consumer.coordinator.coordinator import Coordinator, CoordinatorParts
from barnabas.client.consumer.coordinator.group_leader import GroupLeader
from barnabas.client.consumer.membership.messages import (
    NO_GENERATION,
    Assigned,
    Event,
    Generation,
    Join,
    LeaderElected,
    MembershipFailed,
    MembershipLost,
    OffsetsCommitted,
    OffsetsFetched,
    RejoinNeeded,
    Sync,
)
from barnabas.client.steps import Steps
from barnabas.errors import ConfigError, FencedInstanceIdError, IllegalStateError
from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    pass

log = client_logger("barnabas.consumer")


class ClassicCoordinator(Coordinator):
    """The classic protocol: joins, deals partitions out as leader, takes assignments."""

    def __init__(
        self,
        parts: CoordinatorParts,
        *,
        assignors: Sequence[ConsumerPartitionAssignor],
        rack_id: str | None,
    ) -> None:
        super().__init__(parts)
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = _common_protocol(assignors)
        self._rack_id = rack_id
        self._is_joining = False
        self._rejoin_needed = True
        self._rejoin_reason = ""
        self._needs_join_prepare = True
        self._leader: GroupLeader | None = None
        self._joined_subscription: frozenset[str] | None = None
        # As leader: the partition counts that the present assignment was made from.
        self._assigned_from: dict[str, int | None] | None = None
        self._counts: dict[str, int | None] = {}
        self._counts_version = -1

    # --- poll

    def _rebalance(self, now: float) -> Steps[None]:
        self._take_in_metadata()
        if self._leader is not None:
            self._lead(self._leader)
        elif not self._is_joining and self._is_rejoin_needed():
            yield from self._join_group(now)

    def _is_rebalancing(self) -> bool:
        return self._is_joining

    def enforce_rebalance(self, reason: str) -> None:
        """Join again with the next `poll`."""
        self._request_rejoin(reason)

    def _handle(self, event: Event, now: float) -> Steps[None]:
        if isinstance(event, MembershipFailed):
            self._rebalances.on_cancel(now)
            self._is_joining = False
            self._leader = None
            self.begin_anew()
            self._request_rejoin(f"rebalance failed due to {type(event.error).__name__}")
            if isinstance(event.error, FencedInstanceIdError) and not self._generation.is_unknown:
                # To join again would take the id back from the newcomer.
                self._fenced = event.error
                self._generation = NO_GENERATION
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
        elif isinstance(event, MembershipLost):
            self._on_lost(event)

    def _on_lost(self, event: MembershipLost) -> None:
        log.info("Group %s: %s", self._settings.group_id, event.reason)
        self._generation = event.generation
        self._is_joining = False
        self._leader = None
        self._needs_join_prepare = True
        self._request_rejoin(event.reason)

    def _recover(self, now: float) -> Steps[None]:
        """See `Coordinator`: join again as the same member, which also tells whether it still is one."""
        log.warning("Group %s: a rebalance was interrupted by an exception; joining again", self._settings.group_id)
        self._rebalances.on_cancel(now)
        self._is_joining = False
        self._leader = None
        self._needs_join_prepare = True
        self.auto_commits.forget_last()
        self._events.clear()
        self._request_rejoin("a rebalance was interrupted in the client")
        self._is_torn = False
        yield from ()

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
        """See `Coordinator`."""
        super().require_metadata_after(version)
        self._counts_version = -1

    def _join_group(self, now: float) -> Steps[None]:
        if self._metadata.update_version <= self._needed_version:
            return
        self._rebalances.on_begin(now)
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
        """Commit and give up what has to be given up before joining; False while the commit is in progress."""
        if self._protocol == EAGER and self.auto_commits.is_enabled and not self.auto_commits.is_finishing:
            self._subscriptions.mark_pending_revocation(self._subscriptions.assigned_partitions)
        if not self.auto_commits.finish_before_revocation(self._generation, now):
            return False
        owned = self._subscriptions.assigned_partitions
        if self._generation.is_unknown:
            if owned:
                yield from self.listener.invoke_partitions_lost(owned)
                self._subscriptions.assign_from_subscribed(())
        elif self._protocol == EAGER:
            yield from self.listener.invoke_partitions_revoked(owned)
            self._subscriptions.assign_from_subscribed(())
        else:
            kept = {partition for partition in owned if partition.topic in self._subscriptions.subscription}
            if kept != owned:
                yield from self.listener.invoke_partitions_revoked(owned - kept)
                self._subscriptions.assign_from_subscribed(sorted(kept))
        self._subscriptions.reset_group_subscription()
        self._assigned_from = None
        self._counts_version = -1
        return True

    # --- the rebalance goes on

    def _lead(self, leader: GroupLeader) -> None:
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
                f"Group {self._settings.group_id!r} chose assignor {generation.protocol_name!r}, which this consumer "
                f"did not offer; it has {', '.join(self._assignors)}"
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
            yield from self.listener.invoke_partitions_revoked(owned - assigned)
            self._request_rejoin("need to revoke partitions and re-join")
        yield from self.listener.call(lambda: assignor.on_assignment(assignment, self.group_metadata()))
        self._subscriptions.assign_from_subscribed(sorted(assigned))
        self._note_new_assignment(now)
        log.info("Group %s: assigned %s in generation %s", self._settings.group_id, sorted(assigned), event.generation)
        yield from self.listener.invoke_partitions_assigned(assigned - owned)
        self.listener.raise_first_error()

    def _forget_membership(self) -> None:
        super()._forget_membership()
        self._is_joining = False
        self._leader = None
        self._needs_join_prepare = True
        self._joined_subscription = self._assigned_from = None
        self._request_rejoin("consumer joins")


def _common_protocol(assignors: Sequence[ConsumerPartitionAssignor]) -> str:
    """Return the best way of rebalancing that all assignors can do."""
    common = set.intersection(*(set(assignor.protocols) for assignor in assignors)) if assignors else {EAGER}
    if not common:
        raise ConfigError(
            "The assignors in partition.assignment.strategy have no way of rebalancing in common: "
            + ", ".join(f"{assignor.name} ({'/'.join(assignor.protocols)})" for assignor in assignors)
        )
    return COOPERATIVE if COOPERATIVE in common else EAGER
