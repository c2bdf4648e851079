"""What the consumer is subscribed to and assigned, and where it stands in each partition."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

from barnabas import anatomy
from barnabas.client.consumer.offsets import (
    EpochEndOffset,
    FetchPosition,
    LeaderAndEpoch,
    LogTruncation,
    OffsetAndMetadata,
)
from barnabas.client.consumer.preferred_read_replicas import PreferredReadReplicas
from barnabas.client.consumer.topic_partition_state import (
    AWAIT_RESET,
    AWAIT_VALIDATION,
    FETCHING,
    INITIALIZING,
    TopicPartitionState,
)
from barnabas.errors import IllegalStateError, NoOffsetForPartitionError
from barnabas.network.log_context import current_client
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import re

    from barnabas.client.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
    from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener

_NONE: Final = "none"
_AUTO_TOPICS: Final = "topics"
_AUTO_PATTERN: Final = "pattern"
_AUTO_REGEX: Final = "pattern (resolved by the brokers)"
_USER_ASSIGNED: Final = "assignment"


class SubscriptionState:
    """Subscription, assignment and fetch positions of one consumer.

    Belongs to the application's thread: `poll` and the methods of `Consumer` are its only callers. No method here costs
    more as more partitions are assigned, except those that ask for all of them.
    """

    def __init__(self, default_reset_strategy: AutoOffsetResetStrategy) -> None:
        self._default_reset_strategy = default_reset_strategy
        self._type = _NONE
        self._pattern: re.Pattern[str] | None = None
        #: The expression that the brokers resolve, and the ids of the topics that they found.
        self.topic_regex: str | None = None
        self.assigned_topic_ids: frozenset[bytes] = frozenset()
        self._subscription: frozenset[str] = frozenset()
        self._group_subscription: frozenset[str] = frozenset()
        self._assignment: OrderedDict[TopicPartition, TopicPartitionState] = OrderedDict()
        # Partitions in any state but FETCHING: what poll has to look after, empty in the steady state.
        self._unsettled: set[TopicPartition] = set()
        self.preferred_read_replicas = PreferredReadReplicas(self._note_change)
        self.rebalance_listener: ConsumerRebalanceListener | None = None
        # Grows whenever what may be fetched changes in another way than by handing records out.
        self.version = 0
        #: Numbers the assignments.
        self.assignment_number = 0
        # The partitions whose change made `version` grow since `take_changed`; none after a new assignment.
        self._changed: dict[TopicPartition, None] = {}

    # --- subscription

    def subscribe(self, topics: Iterable[str], listener: ConsumerRebalanceListener | None) -> bool:
        """Subscribe to topics by name; tells whether the set changed."""
        self._set_type(_AUTO_TOPICS)
        self.rebalance_listener = listener
        return self._change_subscription(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: ConsumerRebalanceListener | None) -> None:
        """Subscribe to every topic whose whole name matches; the names follow with `subscribe_from_pattern`."""
        self._set_type(_AUTO_PATTERN)
        self.rebalance_listener = listener
        self._pattern = pattern

    def subscribe_regex(self, regex: str, listener: ConsumerRebalanceListener | None) -> None:
        """Subscribe to every topic that the brokers find to match; which ones follows from the assignment."""
        self._set_type(_AUTO_REGEX)
        self.rebalance_listener = listener
        self.topic_regex = regex

    def subscribe_from_pattern(self, topics: Iterable[str]) -> bool:
        """Set the topics that match the pattern now; tells whether the set changed."""
        if self._type != _AUTO_PATTERN:
            raise IllegalStateError(f"Topics cannot follow from a pattern: the subscription is by {self._type}")
        return self._change_subscription(topics)

    def group_subscribe(self, topics: Iterable[str]) -> bool:
        """Note, as leader, the topics of the whole group; tells whether some are not our own."""
        if not self.has_auto_assigned_partitions:
            raise IllegalStateError("Only a consumer that subscribed can lead a group")
        self._group_subscription = frozenset(topics)
        return not self._subscription >= self._group_subscription

    def reset_group_subscription(self) -> None:
        """Forget the topics of the other members."""
        self._group_subscription = frozenset()

    def unsubscribe(self) -> None:
        """Forget subscription, pattern and assignment."""
        self._type = _NONE
        self._pattern = self.topic_regex = None
        self._subscription = self._group_subscription = frozenset()
        self._set_assignment(())

    @property
    def has_auto_assigned_partitions(self) -> bool:
        """Whether the group assigns the partitions."""
        return self._type in (_AUTO_TOPICS, _AUTO_PATTERN, _AUTO_REGEX)

    @property
    def has_pattern_subscription(self) -> bool:
        """Whether the subscription is a pattern."""
        return self._type == _AUTO_PATTERN

    @property
    def has_no_subscription_or_user_assignment(self) -> bool:
        """Whether there is nothing to poll for."""
        return self._type == _NONE

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to; empty when partitions were assigned by hand.

        Of an expression that the brokers resolve only the topics are known that this consumer has partitions of.
        """
        if self._type == _AUTO_REGEX:
            return frozenset(partition.topic for partition in self._assignment)
        return self.subscribed_names

    @property
    def subscribed_names(self) -> frozenset[str]:
        """The topics subscribed to by name or by a pattern that is matched here."""
        return self._subscription if self.has_auto_assigned_partitions else frozenset()

    @property
    def metadata_topics(self) -> frozenset[str]:
        """The topics whose metadata is needed: our own and, as leader, those of the group."""
        return self._subscription | self._group_subscription if self._group_subscription else self._subscription

    def matches_subscribed_pattern(self, topic: str) -> bool:
        """Whether the pattern, if there is one, takes in this topic."""
        return self._pattern is not None and self._pattern.fullmatch(topic) is not None

    def _set_type(self, kind: str) -> None:
        if self._type not in (_NONE, kind):
            raise IllegalStateError(
                f"This consumer already uses a subscription by {self._type}; "
                "topics, pattern and assignment exclude each other: call unsubscribe() first"
            )
        self._type = kind

    def _change_subscription(self, topics: Iterable[str]) -> bool:
        before, self._subscription = self._subscription, frozenset(topics)
        return before != self._subscription

    # --- assignment

    def assign_from_user(self, partitions: Collection[TopicPartition]) -> bool:
        """Take partitions chosen by hand; tells whether the set of topics changed."""
        self._set_type(_USER_ASSIGNED)
        if self._assignment.keys() == set(partitions):
            return False
        self._set_assignment(partitions)
        return self._change_subscription(partition.topic for partition in partitions)

    def assign_from_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """Take the partitions that the group assigned; those owned before keep their state."""
        if not self.has_auto_assigned_partitions:
            raise IllegalStateError("The group cannot assign partitions: they were assigned by hand")
        self._set_assignment(partitions)
        if anatomy.active is not None:
            assigned = ",".join(map(str, self._assignment))
            anatomy.active.record(anatomy.events.MemberAssigned(current_client(), assigned))

    def check_assignment_matched_subscription(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all partitions are of topics that are (still) subscribed to."""
        if self._pattern is not None:
            return all(self.matches_subscribed_pattern(partition.topic) for partition in partitions)
        return all(partition.topic in self._subscription for partition in partitions)

    def _set_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        before = self._assignment
        self.preferred_read_replicas.forget()
        self._assignment = OrderedDict(
            (partition, before.get(partition) or TopicPartitionState()) for partition in partitions
        )
        self._unsettled = {partition for partition, state in self._assignment.items() if state.fetch_state != FETCHING}
        self.version += 1
        self.assignment_number += 1
        self._changed = {}

    @property
    def assigned_partitions(self) -> set[TopicPartition]:
        """All assigned partitions, as a new set."""
        return set(self._assignment)

    def is_assigned(self, partition: TopicPartition) -> bool:
        """Whether the partition is assigned."""
        return partition in self._assignment

    def __len__(self) -> int:
        return len(self._assignment)

    # --- what may be fetched

    def partitions_in_order(self) -> list[TopicPartition]:
        """All assigned partitions, the longest waiting first."""
        return list(self._assignment)

    def fetchable(self, partition: TopicPartition) -> tuple[FetchPosition, int] | None:
        """Return the position to ask for data from, and its `seek_id`; None where none may be asked for."""
        state = self._assignment.get(partition)
        if state is None or state.position is None or not state.is_fetchable:
            return None
        return state.position, state.seek_id

    def take_changed(self) -> dict[TopicPartition, None]:
        """Return the partitions whose position jumped, or of which data may now be asked for elsewhere or not at all.

        Each is told once; a new assignment changes all of them.
        """
        changed, self._changed = self._changed, {}
        return changed

    def _note_change(self, partition: TopicPartition) -> None:
        self.version += 1
        self._changed[partition] = None

    def seek_id(self, partition: TopicPartition) -> int:
        """Return a number that changes whenever the partition's position jumps; 0 when it is not assigned."""
        state = self._assignment.get(partition)
        return 0 if state is None else state.seek_id

    def is_fetchable(self, partition: TopicPartition) -> bool:
        """Whether data of this partition may be handed out: assigned, valid, not paused, not about to be revoked."""
        state = self._assignment.get(partition)
        return state is not None and state.is_fetchable

    def move_partition_to_end(self, partition: TopicPartition) -> None:
        """Let the other partitions come first in the next fetch: this one has just delivered."""
        if partition in self._assignment:
            # In one step: an exception of a signal handler must not come between taking out and putting back.
            self._assignment.move_to_end(partition)

    def pause(self, partition: TopicPartition) -> None:
        """Hand out nothing of this partition until `resume`."""
        self._state(partition).paused = True
        self._note_change(partition)

    def resume(self, partition: TopicPartition) -> None:
        """End `pause`."""
        self._state(partition).paused = False
        self._note_change(partition)

    @property
    def paused_partitions(self) -> set[TopicPartition]:
        """The partitions that the application paused."""
        return {partition for partition, state in self._assignment.items() if state.paused}

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing more of these: their last offsets are being committed before they are given up."""
        for partition in partitions:
            self._state(partition).pending_revocation = True
            self._note_change(partition)

    # --- positions

    def position(self, partition: TopicPartition) -> FetchPosition | None:
        """Where the consumer stands, valid or not."""
        return self._state(partition).position

    def valid_position(self, partition: TopicPartition) -> FetchPosition | None:
        """Where the consumer stands, if the partition is assigned and the position can be read from."""
        state = self._assignment.get(partition)
        return state.position if state is not None and state.fetch_state == FETCHING else None

    def set_position(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Move on after records were handed out."""
        state = self._state(partition)
        if state.fetch_state != FETCHING:
            raise IllegalStateError(f"{partition} has no valid position to move on from")
        assert state.position is not None
        assert position.offset > state.position.offset, f"{partition} would go from {state.position} to {position}"
        state.position = position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset, without asking the leader about it."""
        self.seek_validated(partition, FetchPosition(offset))

    def seek_validated(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Go to a position that needs no confirmation."""
        state = self._state(partition)
        state.transition(FETCHING, position)
        self._note_fetch_state(partition, state)

    def seek_unvalidated(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Go to a position that the leader has to confirm where epochs are known."""
        state = self._state(partition)
        state.transition(FETCHING, position)
        state.validate(position)
        self._note_fetch_state(partition, state)

    def maybe_seek_unvalidated(
        self, partition: TopicPartition, position: FetchPosition, requested: AutoOffsetResetStrategy
    ) -> None:
        """Take the offset that a reset found, unless the partition is gone or no longer waits for this reset."""
        state = self._assignment.get(partition)
        if state is not None and state.fetch_state == AWAIT_RESET and state.reset_strategy == requested:
            self.seek_unvalidated(partition, position)

    def all_consumed(self, of: Collection[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: one past the last record handed out, for every partition with a position.

        With `of`, only for these.
        """
        chosen = self._assignment if of is None else of
        states = ((partition, self._assignment.get(partition)) for partition in chosen)
        return {
            partition: OffsetAndMetadata(state.position.offset, "", state.position.offset_epoch)
            for partition, state in states
            if state is not None and state.position is not None
        }

    @property
    def has_all_fetch_positions(self) -> bool:
        """Whether every partition can be read."""
        return not self._unsettled

    @property
    def initializing_partitions(self) -> set[TopicPartition]:
        """Partitions that have no position yet."""
        return self._waiting(lambda state: state.fetch_state == INITIALIZING)

    # --- reset

    def request_offset_reset(self, partition: TopicPartition, strategy: AutoOffsetResetStrategy | None = None) -> None:
        """Have the position looked up, by `strategy` or by the one configured."""
        state = self._state(partition)
        state.transition(AWAIT_RESET, None, strategy or self._default_reset_strategy)
        self._note_fetch_state(partition, state)

    def reset_initializing_positions(self) -> None:
        """Have the positions looked up of all partitions that nothing was committed for.

        Raises `NoOffsetForPartitionError` where `auto.offset.reset` is `none`.
        """
        missing = sorted(self.initializing_partitions)
        if missing and not self.has_default_offset_reset_policy:
            names = ", ".join(str(partition) for partition in missing)
            error = NoOffsetForPartitionError(
                f"There is no committed offset for {names}, and auto.offset.reset is none: "
                "seek() to an offset, or set auto.offset.reset"
            )
            error.partitions = tuple(missing)
            raise error
        for partition in missing:
            self.request_offset_reset(partition)

    @property
    def has_default_offset_reset_policy(self) -> bool:
        """Whether `auto.offset.reset` is anything but `none`."""
        return self._default_reset_strategy.name != "none"

    def reset_strategy(self, partition: TopicPartition) -> AutoOffsetResetStrategy | None:
        """How the position is being looked up."""
        return self._state(partition).reset_strategy

    def is_offset_reset_needed(self, partition: TopicPartition) -> bool:
        """Whether the position is being looked up."""
        return self._state(partition).fetch_state == AWAIT_RESET

    def partitions_needing_reset(self, now: float) -> set[TopicPartition]:
        """Partitions to send ListOffsets for."""
        return self._waiting(lambda state: state.fetch_state == AWAIT_RESET and now >= state.next_retry_at)

    def set_next_allowed_retry(self, partitions: Iterable[TopicPartition], retry_at: float) -> None:
        """Ask nothing more about these partitions before `retry_at`."""
        for partition in partitions:
            state = self._assignment.get(partition)
            if state is not None:
                state.next_retry_at = retry_at

    # --- validation (KIP-320)

    def partitions_needing_validation(self, now: float) -> set[TopicPartition]:
        """Partitions to send OffsetForLeaderEpoch for."""
        return self._waiting(lambda state: state.fetch_state == AWAIT_VALIDATION and now >= state.next_retry_at)

    def maybe_validate_position(self, partition: TopicPartition, leader: LeaderAndEpoch) -> bool:
        """Note the leader; tells whether it has to confirm the position because it is a new one."""
        state = self._assignment.get(partition)
        if state is None or state.fetch_state == AWAIT_RESET or leader.leader_id < 0:
            return False
        if state.position is not None and state.position.current_leader != leader:
            state.validate(state.position._replace(current_leader=leader))
            self._note_fetch_state(partition, state)
        return state.fetch_state == AWAIT_VALIDATION

    def maybe_complete_validation(
        self, partition: TopicPartition, requested: FetchPosition, end: EpochEndOffset
    ) -> LogTruncation | None:
        """Take the leader's answer about a position.

        A log that was truncated below it moves the position there or has it reset; without a reset policy the
        truncation is returned, for the application to decide.
        """
        state = self._assignment.get(partition)
        if state is None or state.fetch_state != AWAIT_VALIDATION or state.position != requested:
            return None
        if end.end_offset < 0 or end.leader_epoch < 0:
            if not self.has_default_offset_reset_policy:
                return LogTruncation(requested, None)
            self.request_offset_reset(partition)
            return None
        if end.end_offset >= requested.offset:
            state.transition(FETCHING, state.position)
            self._note_fetch_state(partition, state)
            return None
        if not self.has_default_offset_reset_policy:
            return LogTruncation(requested, OffsetAndMetadata(end.end_offset, "", end.leader_epoch))
        self.seek_validated(partition, FetchPosition(end.end_offset, end.leader_epoch, requested.current_leader))
        return None

    # --- what fetches tell about a partition

    def update_log_offsets(
        self, partition: TopicPartition, high_watermark: int, log_start_offset: int, last_stable_offset: int
    ) -> None:
        """Note the leader's offsets, each -1 when the response does not have it."""
        state = self._assignment.get(partition)
        if state is None:
            return
        if high_watermark >= 0:
            state.high_watermark = high_watermark
            state.end_offset_requested = False
        if log_start_offset >= 0:
            state.log_start_offset = log_start_offset
        if last_stable_offset >= 0:
            state.last_stable_offset = last_stable_offset

    def partition_lag(self, partition: TopicPartition, *, read_committed: bool) -> int | None:
        """Return records between the position and the end of what may be read, or None when that is not known yet."""
        state = self._state(partition)
        end = state.last_stable_offset if read_committed else state.high_watermark
        return None if state.position is None or end < 0 else max(0, end - state.position.offset)

    def partition_lead(self, partition: TopicPartition) -> int | None:
        """Return records between the beginning of the log and the position, or None when that is not known yet."""
        state = self._state(partition)
        start = state.log_start_offset
        return None if state.position is None or start < 0 else max(0, state.position.offset - start)

    def request_end_offset(self, partition: TopicPartition) -> bool:
        """Note that the end offset was asked for; False when it was already."""
        state = self._state(partition)
        asked, state.end_offset_requested = state.end_offset_requested, True
        return not asked

    def end_offset_not_found(self, partition: TopicPartition) -> None:
        """Note that the question for the end offset failed, so that it may be asked again."""
        state = self._assignment.get(partition)
        if state is not None:
            state.end_offset_requested = False

    def repair(self) -> None:
        """Look at the states of all partitions anew, after an exception that may have come between two changes."""
        for partition, state in self._assignment.items():
            state.repair()
            self._note_fetch_state(partition, state)

    # --- inner

    def _state(self, partition: TopicPartition) -> TopicPartitionState:
        state = self._assignment.get(partition)
        if state is None:
            raise IllegalStateError(
                f"{partition} is not assigned to this consumer; assigned: "
                f"{', '.join(str(other) for other in list(self._assignment)[:10]) or 'nothing'}"
            )
        return state

    def _note_fetch_state(self, partition: TopicPartition, state: TopicPartitionState) -> None:
        self._note_change(partition)
        if state.fetch_state == FETCHING:
            self._unsettled.discard(partition)
        else:
            self._unsettled.add(partition)

    def _waiting(self, chosen: Callable[[TopicPartitionState], bool]) -> set[TopicPartition]:
        return {partition for partition in self._unsettled if chosen(self._assignment[partition])}
