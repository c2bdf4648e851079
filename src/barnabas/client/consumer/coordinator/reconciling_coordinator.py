"""The application's side of membership in a group of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.client.consumer.coordinator.coordinator import Coordinator, CoordinatorParts
from barnabas.client.consumer.membership.messages import (
    NO_GENERATION,
    Event,
    MemberEpochChanged,
    MembershipFailed,
    MembershipLost,
    OffsetsCommitted,
    OffsetsFetched,
    Reconciled,
    Subscribe,
    TargetAssigned,
    TopicIdPartitions,
)
from barnabas.client.steps import Steps
from barnabas.errors import FencedInstanceIdError
from barnabas.network.log_context import client_logger
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    pass

log = client_logger("barnabas.consumer")


class ReconcilingCoordinator(Coordinator):
    """The consumer protocol: brings what the application owns to what the coordinator wants, step by step.

    A target is a set of topic ids and partitions. Taking it is: find the topics' names, commit (where that is
    automatic), revoke, assign, tell the membership core. Each step may take several polls; a newer target that comes
    meanwhile is taken when the present one is done, or at once while nothing was begun.
    """

    def __init__(self, parts: CoordinatorParts) -> None:
        super().__init__(parts)
        self._is_member = False
        self._subscribed: tuple[tuple[str, ...], str | None] | None = None
        # What the coordinator wants, while it is not what the application owns.
        self._target: TopicIdPartitions | None = None
        # The part of it that is being taken: the topics whose names are known, once revocation has begun.
        self._taking: TopicIdPartitions | None = None
        self._owned: TopicIdPartitions | None = None
        # Topics stay known by name for as long as they are owned, also when the metadata has forgotten them.
        self._names: dict[bytes, str] = {}
        self._pattern_version = -1

    def _is_rebalancing(self) -> bool:
        """Never: epochs pass while the application commits, and the membership core knows the present one."""
        return False

    def enforce_rebalance(self, reason: str) -> None:
        """Warn: in this protocol the coordinator alone decides when a group rebalances."""
        log.warning("enforce_rebalance() does nothing with group.protocol=consumer: the coordinator decides")

    # --- events

    def _handle(self, event: Event, now: float) -> Steps[None]:
        if isinstance(event, MembershipFailed):
            if isinstance(event.error, FencedInstanceIdError) and not self._generation.is_unknown:
                # To join again would take the id back from the newcomer.
                self._fenced = event.error
            yield from self._lose(now)
            raise event.error
        if isinstance(event, OffsetsCommitted | OffsetsFetched) or event.attempt != self._attempt:
            return
        if isinstance(event, MemberEpochChanged):
            self._generation = event.generation
        elif isinstance(event, TargetAssigned):
            self._rebalances.on_begin(now)
            self._target = event.partitions
            self._subscriptions.assigned_topic_ids = frozenset(event.partitions)
        elif isinstance(event, MembershipLost):
            log.info("Group %s: %s", self._settings.group_id, event.reason)
            yield from self._lose(now)

    def _lose(self, now: float) -> Steps[None]:
        """Return the partitions belong to others by now; the next step joins again."""
        self._rebalances.on_cancel(now)
        owned = self._subscriptions.assigned_partitions
        try:
            if self._subscriptions.has_auto_assigned_partitions and owned:
                yield from self.listener.invoke_partitions_lost(owned)
        finally:
            if self._subscriptions.has_auto_assigned_partitions:
                self._subscriptions.assign_from_subscribed(())
            self._forget_membership()
        self.listener.raise_first_error()

    def _recover(self, now: float) -> Steps[None]:
        """See `Coordinator`: what was taken of a target is not known, so all is lost and the member joins anew."""
        log.warning("Group %s: a rebalance was interrupted by an exception; joining again", self._settings.group_id)
        self._events.clear()
        yield from self._lose(now)
        self._is_torn = False

    def _forget_membership(self) -> None:
        super()._forget_membership()
        self._generation = NO_GENERATION
        self._is_member = False
        self._subscribed = self._target = self._taking = self._owned = None
        self._subscriptions.assigned_topic_ids = frozenset()

    # --- steps

    def _rebalance(self, now: float) -> Steps[None]:
        if self._metadata.update_version <= self._needed_version:
            return
        self._match_pattern()
        subscribed = (tuple(sorted(self._subscriptions.subscribed_names)), self._subscriptions.topic_regex)
        if subscribed != self._subscribed:
            if not self._is_member:
                self._attempt += 1
                self._is_member = True
            self._subscribed = subscribed
            self._membership.send(Subscribe(self._attempt, *subscribed))
        if self._target is not None:
            yield from self._reconcile(self._target, now)

    def _match_pattern(self) -> None:
        """Find the topics that match an `re.Pattern`; once for each update of the metadata."""
        version = self._metadata.update_version
        if not self._subscriptions.has_pattern_subscription or version == self._pattern_version:
            return
        self._pattern_version = version
        matching = filter(self._subscriptions.matches_subscribed_pattern, self._metadata.fetch().topics)
        self._subscriptions.subscribe_from_pattern(matching)

    def require_metadata_after(self, version: int) -> None:
        """See `Coordinator`."""
        super().require_metadata_after(version)
        self._pattern_version = -1

    def _reconcile(self, target: TopicIdPartitions, now: float) -> Steps[None]:
        if self._taking is None:
            resolved = self._resolved(target)
            if resolved == self._owned == target:
                self._target = None
                return
            if resolved != target and resolved == (self._owned or {}):
                return
            self._taking = resolved
            self._subscriptions.mark_pending_revocation(
                self._subscriptions.assigned_partitions - self._partitions(resolved)
            )
        if not self.auto_commits.finish_before_revocation(self._generation, now):
            return
        yield from self._revoke_and_assign(self._taking, now)

    def _resolved(self, target: TopicIdPartitions) -> TopicIdPartitions:
        """Return the part of a target whose topics are known; for the others new metadata is asked for."""
        cluster = self._metadata.fetch()
        resolved = {}
        for topic_id, numbers in target.items():
            name = cluster.topic_name(topic_id)
            if name is not None:
                self._names[topic_id] = name
            if topic_id in self._names:
                resolved[topic_id] = numbers
        if len(resolved) < len(target):
            self._metadata.request_update(reset_equivalent_backoff=False)
        return resolved

    def _partitions(self, by_id: Mapping[bytes, tuple[int, ...]]) -> set[TopicPartition]:
        return {TopicPartition(self._names[topic_id], number) for topic_id in by_id for number in by_id[topic_id]}

    def _revoke_and_assign(self, taken: TopicIdPartitions, now: float) -> Steps[None]:
        """Revoke, assign, and have the coordinator told, even when the listener fails."""
        assigned, before = self._partitions(taken), self._subscriptions.assigned_partitions
        revoked = before - assigned
        if revoked:
            yield from self.listener.invoke_partitions_revoked(revoked)
        self._subscriptions.assign_from_subscribed(sorted(assigned))
        self._note_new_assignment(now)
        self._taking, self._owned = None, taken
        if taken == self._target:
            self._target = None
        self._names = {topic_id: self._names[topic_id] for topic_id in taken}
        log.info("Group %s: assigned %s in epoch %s", self._settings.group_id, sorted(assigned), self._generation[0])
        try:
            yield from self.listener.invoke_partitions_assigned(assigned - before)
        finally:
            self._membership.send(Reconciled(self._attempt, taken))
        self.listener.raise_first_error()
