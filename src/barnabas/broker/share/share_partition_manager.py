"""The share-partitions that this broker leads, and the sessions of their members (SharePartitionManager)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.cold_search import bring_in_search
from barnabas.broker.coordinator.timers import TimerQueue
from barnabas.broker.piecewise import run_steps
from barnabas.broker.share.latencies import Latencies
from barnabas.broker.share.persister import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    SharePartitionState,
)
from barnabas.broker.share.share_partition import Acknowledgement, SharePartition
from barnabas.broker.share.share_session import ShareSession, ShareSessionCache
from barnabas.config.durations import parse_duration

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.partition import Partition
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.share.in_flight_records import Transition
    from barnabas.broker.share.persister import Persister, Tell
    from barnabas.broker.share.share_group_config import ShareGroupSettings
    from barnabas.broker.share.share_group_metrics import ShareGroupMetrics

#: What the share coordinator says where another broker leads, or the group has begun anew.
_FENCED = (
    errors.FencedLeaderEpochError,
    errors.FencedStateEpochError,
    errors.UnknownTopicOrPartitionError,
    errors.GroupIdNotFoundError,
    errors.InvalidRequestError,
)


class LedSharePartition:
    """A share-partition whose topic partition is led here. Without a `state` it is being loaded, or has a `problem`.

    Fetches that wait for it are parked under it.
    """

    __slots__ = (
        "began", "expired_locks", "key", "leader_epoch", "new_batches", "problem", "record_size", "replica", "state",
    )  # fmt: skip

    def __init__(self, key: SharePartitionKey, replica: Partition, began: float) -> None:
        self.key = key
        self.replica = replica
        #: When it was first asked for, in monotonic seconds.
        self.began = began
        #: How many bytes an acquired record took in the log the last time; 0 before the first time.
        self.record_size = 0.0
        #: How many records were freed because their locks had ended.
        self.expired_locks = 0
        #: How many records the ranges have that were delivered for the first time.
        self.new_batches = Latencies()
        self.leader_epoch = replica.leader_epoch
        self.state: SharePartition | None = None
        self.problem: errors.KafkaError | None = None

    @property
    def is_led(self) -> bool:
        """Whether the topic partition is led as it was when this began."""
        replica = self.replica
        return not replica.deleted and replica.is_leader and replica.leader_epoch == self.leader_epoch


class SharePartitionManager:
    """Loads share-partitions when they are first fetched from, keeps their states, and ends locks in time."""

    __slots__ = ("_led", "_persister", "_replicas", "_timers", "metrics", "sessions", "settings")

    def __init__(
        self,
        replicas: ReplicaManager,
        persister: Persister,
        settings: ShareGroupSettings,
        metrics: ShareGroupMetrics,
    ) -> None:
        self._replicas = replicas
        self._persister = persister
        self.settings = settings
        self.metrics = metrics
        self.sessions = ShareSessionCache(lambda: settings.max_sessions)
        self._led: dict[SharePartitionKey, LedSharePartition] = {}
        self._timers = TimerQueue()

    # --- a service of the dispatcher

    def next_deadline(self) -> float:
        """When a lock ends, in monotonic seconds."""
        return self._timers.next_deadline()

    def tick(self, at: Instant) -> None:
        """Free records whose locks have ended, a piece of those of one share-partition."""
        due = self._timers.pop_due(at.now)
        if due is not None:
            due[1](at)

    def close(self) -> None:
        """End nothing more: the broker stops."""
        self._timers.clear()

    # --- loading

    def led(self, key: SharePartitionKey, at: Instant) -> LedSharePartition:
        """Return a share-partition, which may have to be loaded first. Raises KafkaError where it is not led here."""
        found = self._led.get(key)
        if found is not None and found.is_led:
            return found
        if found is not None:
            self._drop(found)
        replica = self._replicas.partition_by_id(key.topic_id, key.partition)
        replica.check_leader()
        found = self._led[key] = LedSharePartition(key, replica, at.now)
        self._persister.read(key, found.leader_epoch, at, partial(self._loaded, found, at))
        return found

    def _loaded(self, led: LedSharePartition, at: Instant, answer: SharePartitionState | errors.KafkaError) -> None:
        if isinstance(answer, errors.KafkaError):
            self._failed(led, _told(answer))
        elif answer.start_offset != UNINITIALIZED_START_OFFSET:
            self._starts_at(led, answer, lambda: answer.start_offset)
        else:
            name, _, duration = self.settings.auto_offset_reset(led.key.group_id).partition(":")
            if name == "by_duration":
                timestamp = at.now_ms - parse_duration(duration)
                # What the search reads is read beside the loop before.
                run_steps(
                    bring_in_search(self._replicas, led.replica.log, timestamp),
                    lambda: self._starts_at(led, answer, lambda: _offset_from(led, timestamp)),
                )
            elif name == "earliest":
                self._starts_at(led, answer, lambda: led.replica.log.log_start_offset)
            else:
                self._starts_at(led, answer, lambda: led.replica.log.latest_offset().offset)

    def _starts_at(self, led: LedSharePartition, answer: SharePartitionState, offset: Callable[[], int]) -> None:
        try:
            led.state = SharePartition(answer, offset(), led.leader_epoch)
        except errors.KafkaError as problem:
            self._failed(led, problem)
            return
        self.metrics.count_load(led.began)
        self._replicas.wake(led)

    def _failed(self, led: LedSharePartition, problem: errors.KafkaError) -> None:
        led.problem = problem
        self._drop(led)

    def _drop(self, led: LedSharePartition) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]
            self._timers.cancel(led.key)
        self._replicas.wake(led)

    def drop_not_led(self) -> None:
        """Drop what is led elsewhere, or deleted; who waits for its records is told."""
        for led in [led for led in self._led.values() if not led.is_led]:
            self._drop(led)

    def forget_group(self, group_id: str) -> None:
        """Drop what is known of a group's share-partitions: their states have begun anew, or no member reads them."""
        for led in [led for key, led in self._led.items() if key.group_id == group_id]:
            self._drop(led)

    # --- acquired records

    def acquired(self, led: LedSharePartition) -> None:
        """Have the locks of records end in time."""
        if led.state is not None and self._led.get(led.key) is led:
            self._timers.schedule(led.key, led.state.next_deadline(), partial(self._expire, led))

    def _expire(self, led: LedSharePartition, at: Instant) -> None:
        state = led.state
        if state is None:
            return
        update = state.expire_locks(self.settings.limits(led.key.group_id), at.now)
        if update is not None:
            led.expired_locks += sum(one.last_offset - one.first_offset + 1 for one in update.state_batches)
            self._persister.write(led.key, update, at, partial(self._freed, led))
            self._replicas.wake(led)
        self.acquired(led)

    def _freed(self, led: LedSharePartition, problem: errors.KafkaError | None) -> None:
        if isinstance(problem, _FENCED):
            self._drop(led)

    def acknowledge(
        self,
        key: SharePartitionKey,
        member_id: str,
        acknowledgements: Sequence[Acknowledgement],
        at: Instant,
        tell: Tell,
    ) -> None:
        """Take what a member says of records; `tell` gets None when that is stored."""
        led = self._led.get(key)
        if led is None or led.state is None:
            tell(errors.UnknownTopicOrPartitionError("No records of this share-partition are acquired here."))
            return
        if not led.is_led:
            self._drop(led)
            tell(errors.NotLeaderOrFollowerError("Another broker leads the partition, or will."))
            return
        limits = self.settings.limits(key.group_id)
        try:
            transition = led.state.acknowledge(member_id, acknowledgements, limits, at.now)
        except errors.KafkaError as problem:
            tell(problem)
            return
        self.acquired(led)
        self.metrics.count_acknowledged(acknowledgements)
        if transition is None:
            tell(None)
        else:
            self._persist(led, led.state, transition, at, tell)

    def _persist(
        self, led: LedSharePartition, state: SharePartition, transition: Transition, at: Instant, tell: Tell
    ) -> None:
        def stored(problem: errors.KafkaError | None) -> None:
            limits = self.settings.limits(led.key.group_id)
            state.complete(transition, limits, at.now, is_stored=problem is None)
            self._freed(led, problem)
            self.acquired(led)
            self._replicas.wake(led)
            tell(None if problem is None else _told(problem))

        self._persister.write(led.key, state.update_of(transition), at, stored)

    # --- sessions

    def end_session(self, session: ShareSession, at: Instant) -> None:
        """Forget a session, and free what its member has acquired."""
        self.sessions.remove(session.group_id, session.member_id)
        is_last = not self.sessions.has_group(session.group_id)
        limits = self.settings.limits(session.group_id)
        for topic_id, number in session.partitions:
            led = self._led.get(SharePartitionKey(session.group_id, topic_id, number))
            if led is None or led.state is None:
                continue
            transition = led.state.release(session.member_id, limits)
            if transition is not None:
                self._persist(led, led.state, transition, at, _ignore)
        if is_last:
            # Its offsets may be altered, or deleted, before there is a member again.
            self.forget_group(session.group_id)

    def connection_lost(self, connection_id: int, at: Instant) -> None:
        """End the sessions that a connection has begun."""
        for session in self.sessions.of_connection(connection_id):
            self.end_session(session, at)

    @property
    def led_share_partitions(self) -> list[LedSharePartition]:
        """What is loaded, for those who look on."""
        return list(self._led.values())


def _offset_from(led: LedSharePartition, timestamp: int) -> int:
    """Return the first offset from a time (epoch ms) on, where nothing is so new the end."""
    log = led.replica.log
    found = log.offset_for_timestamp(timestamp)
    return log.latest_offset().offset if found is None else found.offset


def _told(problem: errors.KafkaError) -> errors.KafkaError:
    """Return what a member is told where its acknowledgement could not be stored, or a share-partition not loaded."""
    if isinstance(problem, errors.FencedLeaderEpochError | errors.FencedStateEpochError):
        return errors.NotLeaderOrFollowerError(str(problem))
    if isinstance(problem, errors.NotCoordinatorError | errors.CoordinatorLoadInProgressError):
        return errors.CoordinatorNotAvailableError(str(problem))
    known = errors.CoordinatorNotAvailableError, errors.GroupIdNotFoundError, errors.UnknownTopicOrPartitionError
    return problem if isinstance(problem, known) else errors.UnknownServerError(str(problem))


def _ignore(problem: errors.KafkaError | None) -> None:
    # What could not be freed is free when its lock ends.
    return
