"""The application's core of a consumer at work: everything that `Consumer` does by waiting."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from barnabas import anatomy
from barnabas.client.client_utils import metric_config
from barnabas.client.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from barnabas.client.consumer.commit_calls import CommitCalls
from barnabas.client.consumer.consumer_metrics import PollMetrics
from barnabas.client.consumer.consumer_records import EMPTY, ConsumerRecords
from barnabas.client.consumer.fetching.fetch_config import isolation_level
from barnabas.client.consumer.membership.messages import GroupMembershipOperation
from barnabas.client.consumer.offsets import FetchPosition, MemberMetadata, OffsetAndMetadata, with_epochs
from barnabas.client.consumer.record_iteration import RecordIteration
from barnabas.client.steps import Steps
from barnabas.client.telemetry.reports_telemetry import begin_last_push, last_push
from barnabas.errors import (
    IllegalArgumentError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from barnabas.network.log_context import client_logger
from barnabas.network.metric_group import MetricGroup, with_app_info
from barnabas.network.network_metrics import network_metrics, node_metrics
from barnabas.protocol.kinds import IsolationLevel
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.consumer.consumer_parts import ConsumerParts
    from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.client.consumer.coordinator.coordinator import Coordinator
    from barnabas.client.consumer.coordinator.offset_commits import Offsets
    from barnabas.client.consumer.fetching.fetched_data import FetchedData
    from barnabas.client.consumer.subscription_pattern import SubscriptionPattern
    from barnabas.client.telemetry.client_telemetry_reporter import ClientTelemetryReporter

log = client_logger("barnabas.consumer")

# Between two looks at the sockets while there are records to hand out; large answers go on arriving meanwhile.
_IO_INTERVAL = 0.001
# Seconds that the heartbeat thread has to leave the group, where the application does not wait for it.
_FAREWELL = 5.0


class ConsumerPolling:
    """Drives the application's core. All methods belong to the application.

    Methods that wait return the `Steps` of it, to be run by the thread or on an event loop.
    """

    def __init__(self, parts: ConsumerParts) -> None:
        self._parts = parts
        # Whether no call waits any more for the poll in progress, which is to hand out nothing therefore.
        self.is_abandoned = False
        self._clock = parts.environment.clock
        self._started_at_ms = parts.environment.wall_clock_ms()
        self._client = parts.client
        self._subscriptions = parts.subscriptions
        self._fetcher = parts.fetcher
        self._collector = parts.collector
        self._coordinator = parts.coordinator
        self._retry_backoff = parts.config.get_seconds("retry.backoff.ms")
        self._max_poll_records = parts.config.get_int("max.poll.records")
        self.isolation_level = isolation_level(parts.config.get_str("isolation.level"))
        self._interceptors = parts.interceptors
        self._metrics = PollMetrics(metric_config(parts.config))
        self.commits = CommitCalls(self.coordinator, self.wait, self._to_commit, self._clock)
        #: What is told to the cluster; None when nothing is.
        self.telemetry: ClientTelemetryReporter | None = None
        self.iteration = RecordIteration()
        self._arrow: Any = None
        self._last_io = 0.0
        # An exception from outside ended a poll in its middle.
        self._is_torn = False
        if self._coordinator is not None:
            self._coordinator.auto_commits.consumed_offsets = self.consumed_offsets

    # --- subscription

    def coordinator(self) -> Coordinator:
        """Return the coordinator's client; raises `InvalidGroupIdError` without a group."""
        if self._coordinator is None:
            raise InvalidGroupIdError(
                "This consumer has no group.id, which subscribing and committed offsets need: set group_id, or "
                "assign() partitions and keep their offsets yourself"
            )
        return self._coordinator

    def subscribe(self, topics: Collection[str], listener: ConsumerRebalanceListener | None) -> None:
        """Subscribe to topics."""
        self.coordinator()
        if self._subscriptions.subscribe(topics, listener):
            self._parts.metadata.request_update_for_new_topics()

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: ConsumerRebalanceListener | None) -> None:
        """Subscribe to the topics that match; which ones that are comes with the next metadata."""
        coordinator = self.coordinator()
        self._subscriptions.subscribe_pattern(pattern, listener)
        coordinator.require_metadata_after(self._parts.metadata.request_update())

    def subscribe_regex(self, pattern: SubscriptionPattern, listener: ConsumerRebalanceListener | None) -> None:
        """Subscribe to the topics that the brokers find to match."""
        self.coordinator()
        if not self._parts.config.is_consumer_protocol:
            raise UnsupportedVersionError(
                "A SubscriptionPattern is resolved by the brokers, which takes group.protocol=consumer; with the "
                "classic protocol subscribe to an re.Pattern"
            )
        if not pattern.pattern:
            raise IllegalArgumentError("The pattern to subscribe to is empty")
        self._subscriptions.subscribe_regex(pattern.pattern, listener)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions."""
        self._take_back_undelivered()
        coordinator, now = self._coordinator, self._clock()
        if coordinator is not None and coordinator.auto_commits.is_enabled:
            coordinator.ensure_heartbeat_thread()
            coordinator.auto_commits.commit_now(now)
        if self._subscriptions.assign_from_user(partitions):
            self._parts.metadata.request_update_for_new_topics()

    def unsubscribe(self) -> Steps[None]:
        """Read nothing any more."""
        self._take_back_undelivered()
        coordinator = self._coordinator
        try:
            if coordinator is not None and self._subscriptions.has_auto_assigned_partitions:
                yield from coordinator.leave("the consumer unsubscribed from all topics")
        finally:
            self._subscriptions.unsubscribe()

    # --- poll

    def poll(self, timeout: float, max_records: int | None) -> Steps[ConsumerRecords]:
        """See `Consumer.poll`."""
        wanted = max_records or self._max_poll_records
        records = yield from self._poll(timeout, lambda now: self._collector.collect_fetch(wanted, now))
        return self._interceptors.on_consume(records) if records and self._interceptors else records or EMPTY

    def poll_arrow(self, timeout: float) -> Steps[pa.RecordBatch | None]:
        """See `Consumer.poll_arrow`."""
        if self._arrow is None:
            from barnabas.records.arrow import ALL_COLUMNS, ColumnBuilder

            self._arrow = ColumnBuilder(ALL_COLUMNS)
        builder = self._arrow
        yield from self._poll(timeout, lambda now: self._collector.collect_arrow(builder, now))
        return builder.finish() if builder.row_count else None

    def poll_raw(self, timeout: float) -> Steps[list[FetchedData]]:
        """See `Consumer.poll_raw`."""
        return (yield from self._poll(timeout, self._collector.collect_raw)) or []

    def _poll(self, timeout: float, collect: Callable[[float], Any]) -> Steps[Any]:
        self._check_poll()
        if self._is_torn:
            self.take_back()
        self._collector.begin_call()
        self._take_back_undelivered()
        now = self._clock()
        self._metrics.poll_began(now)
        found: Any = None
        if anatomy.active is not None:
            anatomy.active.record(anatomy.events.PollEntered(self._client.client.client_id))
        try:
            found = yield from self._poll_until(now + timeout, now, collect)
            return found
        finally:
            self._metrics.on_poll_end(self._clock())
            if anatomy.active is not None:
                records = int(found) if isinstance(found, bool) else len(found or ())
                anatomy.active.record(anatomy.events.PollLeft(self._client.client.client_id, records))

    def begin_anew(self, *, is_outermost: bool) -> None:
        """Drop what is on its way, after an exception that may have come between two changes of the positions.

        `is_outermost` is False where a listener or callback made the call that was interrupted.
        """
        self._fetcher.begin_anew()
        self._subscriptions.repair()
        if self._coordinator is not None:
            self._coordinator.begin_anew()
            if is_outermost:
                self._coordinator.listener.is_running = False

    def take_back(self) -> None:
        """Go back to where the last poll began, which was interrupted: its records did not reach the application."""
        self._is_torn = True
        self._arrow = None
        self.iteration.clear()
        self._collector.take_back()
        self._is_torn = False

    def _poll_until(self, deadline: float, now: float, collect: Callable[[float], Any]) -> Steps[Any]:
        while True:
            self._client.maybe_trigger_wakeup()
            yield from self._update_assignment(now)
            if self.is_abandoned:
                return None
            found = collect(now)
            if found:
                self._prefetch(now)
                return found
            self._fetcher.send_fetches(now)
            wait = self._time_to_wait(now, deadline)
            now = self._last_io = self._client.poll(wait, now, should_block=self._has_nothing_to_collect)
            self._parts.metadata.raise_any_error()
            found = collect(now)
            if found:
                self._prefetch(now)
                return found
            if now >= deadline:
                return None
            yield None
            now = self._clock()

    def _check_poll(self) -> None:
        coordinator = self._coordinator
        if self._subscriptions.has_no_subscription_or_user_assignment:
            raise IllegalStateError("There is nothing to poll: subscribe() to topics or assign() partitions first")
        if coordinator is not None:
            if coordinator.listener.is_running:
                raise IllegalStateError("A rebalance listener cannot poll(): it is running inside of it")
            coordinator.ensure_heartbeat_thread()

    def _has_nothing_to_collect(self) -> bool:
        return not self._collector.has_available_fetches

    def _prefetch(self, now: float) -> None:
        """Have the next fetch on its way while the application works, and go on receiving."""
        if self._fetcher.send_fetches(now) or now - self._last_io > _IO_INTERVAL:
            self._last_io = now
            self._client.transmit_sends(now)

    def _time_to_wait(self, now: float, deadline: float) -> float:
        wait = deadline - now
        if self._coordinator is not None:
            wait = min(wait, self._coordinator.time_to_next_poll(now))
        if self._fetcher.is_backing_off or not self._subscriptions.has_all_fetch_positions:
            wait = min(wait, self._retry_backoff)
        return max(0.0, wait)

    def _update_assignment(self, now: float) -> Steps[None]:
        # First, so that the coordinator does not commit positions in topics that are gone.
        self._parts.offset_fetcher.reset_positions_of_recreated_topics()
        if self._coordinator is not None:
            yield from self._coordinator.poll(now)
        self._update_positions(now)

    def _update_positions(self, now: float) -> None:
        """Have every partition get a valid position: committed, else reset; confirmed by its leader."""
        self._parts.offset_fetcher.validate_positions_if_needed(now)
        if self._subscriptions.has_all_fetch_positions:
            return
        if self._coordinator is not None and not self._coordinator.refresh_committed_offsets(now):
            return
        self._subscriptions.reset_initializing_positions()
        self._parts.offset_fetcher.reset_positions_if_needed(now)

    # --- waiting

    def wait(
        self,
        is_done: Callable[[], bool],
        step: Callable[[float], object],
        timeout: float,
        error: str | Callable[[], KafkaError],
    ) -> Steps[None]:
        """Step and poll the network until `is_done`; raises `KafkaTimeoutError` after `timeout` seconds."""
        now = self._clock()
        deadline = now + timeout
        while not is_done():
            self._client.maybe_trigger_wakeup()
            step(now)
            if is_done():
                return
            if now >= deadline:
                why = self._client.client.failure_to_connect
                raise (
                    KafkaTimeoutError(f"{error} took longer than {timeout:g} s{why}")
                    if isinstance(error, str)
                    else error()
                )
            now = self._last_io = self._client.poll(min(deadline - now, self._retry_backoff), now)
            self._parts.metadata.raise_any_error()
            if not is_done():
                yield None
                now = self._clock()

    def position(self, partition: TopicPartition, timeout: float) -> Steps[int]:
        """See `Consumer.position`."""
        if not self._subscriptions.is_assigned(partition):
            raise IllegalStateError(f"{partition} is not assigned to this consumer, so it has no position in it")
        if self._coordinator is not None:
            self._coordinator.ensure_heartbeat_thread()
        waiting = self.iteration.undelivered().get(partition)
        if waiting is not None:
            return int(waiting.offset)
        yield from self.wait(
            lambda: self._subscriptions.valid_position(partition) is not None,
            self._step_position,
            timeout,
            f"Finding the position in {partition}",
        )
        position = self._subscriptions.valid_position(partition)
        return -1 if position is None else position.offset

    def _step_position(self, now: float) -> None:
        if self._coordinator is not None:
            self._coordinator.take_events()
        self._update_positions(now)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """See `Consumer.current_lag`."""
        read_committed = self.isolation_level == IsolationLevel.READ_COMMITTED
        lag = self._subscriptions.partition_lag(partition, read_committed=read_committed)
        if lag is None:
            self._parts.offset_fetcher.request_end_offset(partition, self._clock())
        return lag

    def seek(self, partition: TopicPartition, position: FetchPosition) -> None:
        """See `Consumer.seek`."""
        self._subscriptions.seek_unvalidated(partition, position)
        self.iteration.drop(partition)

    def reset_positions(self, partitions: Collection[TopicPartition], strategy: AutoOffsetResetStrategy) -> None:
        """See `Consumer.seek_to_beginning` and `seek_to_end`."""
        for partition in partitions:
            self._subscriptions.request_offset_reset(partition, strategy)
            self.iteration.drop(partition)

    # --- the loop over records

    def consumed_offsets(self, of: Collection[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what to commit, of some partitions or of all.

        It is the positions, without what the loop over records has not handed out yet.
        """
        offsets = self._subscriptions.all_consumed(of)
        for partition, record in self.iteration.undelivered().items():
            if partition in offsets:
                offsets[partition] = OffsetAndMetadata(record.offset, "", record.leader_epoch)
        return offsets

    def _to_commit(self, asked: Offsets | None) -> Offsets:
        return self.consumed_offsets() if asked is None else with_epochs(asked, self.consumed_offsets(asked.keys()))

    def group_metadata(self) -> MemberMetadata:
        """See `Consumer.group_metadata`."""
        found = MemberMetadata(*self.coordinator().group_metadata())
        found.consumed = self.consumed_offsets()
        return found

    def pause(self, partition: TopicPartition) -> None:
        """See `Consumer.pause`."""
        self._subscriptions.pause(partition)
        waiting = self.iteration.undelivered().get(partition)
        if waiting is not None:
            self._go_back_to(partition, waiting)
            self.iteration.drop(partition)

    def _take_back_undelivered(self) -> None:
        """Go back to the first record that the loop over records has not handed out: it will be fetched again."""
        for partition, record in self.iteration.undelivered().items():
            self._go_back_to(partition, record)
        self.iteration.clear()

    def _go_back_to(self, partition: TopicPartition, record: ConsumerRecord) -> None:
        if self._subscriptions.valid_position(partition) is not None:
            leader = self._parts.metadata.leader_and_epoch(partition)
            self._subscriptions.seek_validated(partition, FetchPosition(record.offset, record.leader_epoch, leader))

    def metric_groups(self) -> list[MetricGroup]:
        """See `Consumer.metric_groups`."""
        now, coordinator = self._clock(), self._coordinator
        network = [self._client.client.metrics, *([] if coordinator is None else [coordinator.network_client.metrics])]
        whole = {**network_metrics(network, now), **self._metrics.as_dict(now), **self.commits.times.as_dict()}
        assigned: dict[str, float] = {"assigned-partitions": len(self._subscriptions)}
        of_group = assigned if coordinator is None else {**coordinator.metrics(now), **assigned}
        read_committed = self.isolation_level == IsolationLevel.READ_COMMITTED
        groups = [
            MetricGroup("consumer-metrics", {}, whole),
            MetricGroup("consumer-coordinator-metrics", {}, of_group),
            *self._fetcher.metrics.groups(self._subscriptions, now, read_committed=read_committed),
            *node_metrics("consumer-node-metrics", network, now),
        ]
        return with_app_info(groups, self._started_at_ms)

    # --- the end

    def close(self, timeout: float, operation: GroupMembershipOperation) -> Steps[None]:
        """See `Consumer.close`. Every step is taken, and the first error raised at the end."""
        deadline = self._clock() + timeout
        errors: list[BaseException] = []
        self._client.disable_wakeups()
        coordinator = self._coordinator
        if coordinator is not None:
            if coordinator.has_heartbeat_thread:
                yield from attempt(errors, self._finish_commits(deadline))
                before = len(errors)
                yield from attempt(errors, self._leave_group(operation))
                if len(errors) > before:
                    coordinator.leave_at_once(operation)
            begin_last_push(self.telemetry, self._clock())
            yield from coordinator.stop_heartbeat_thread(self._clock(), deadline)
            yield from attempt(errors, self._abandon_commits())
        yield from attempt(errors, self._close_sessions())
        self._collector.drop_all()
        yield from attempt(errors, last_push(self.telemetry, self._client.poll, self._clock, deadline))
        self._client.client.close()
        self._interceptors.close()
        if errors:
            raise errors[0]

    def abandon(self, operation: GroupMembershipOperation) -> None:
        """End what `close` could not: the heartbeat thread leaves the group by itself, and the connections close."""
        coordinator = self._coordinator
        if coordinator is not None:
            coordinator.abandon(operation, self._clock() + _FAREWELL)
        self._client.client.close()

    def _finish_commits(self, deadline: float) -> Steps[None]:
        coordinator = self.coordinator()
        left = deadline - self._clock()
        if coordinator.auto_commits.is_enabled and self.consumed_offsets():
            try:
                yield from self.commits.commit_now(None, left)
            except KafkaError as error:
                log.warning("Committing offsets while closing failed: %s", error)
        yield from self.commits.await_async_commits(max(0.0, deadline - self._clock()))

    def _abandon_commits(self) -> Steps[None]:
        """Fail the commits that have no answer by now; no more answers are taken."""
        coordinator = self.coordinator()
        coordinator.take_events()
        coordinator.commits.abandon(KafkaTimeoutError("The consumer was closed before the coordinator answered"))
        yield from coordinator.commits.invoke_completed_callbacks()

    def _leave_group(self, operation: GroupMembershipOperation) -> Steps[None]:
        if self._subscriptions.has_auto_assigned_partitions:
            yield from self.coordinator().leave("the consumer is being closed", operation)

    def _close_sessions(self) -> Steps[None]:
        now = self._clock()
        self._fetcher.close_sessions(now)
        self._client.transmit_sends(now)
        yield from ()


def attempt(errors: list[BaseException], steps: Steps[object]) -> Steps[None]:
    """Take steps of a close, and note an error for its end."""
    try:
        yield from steps
    except Exception as error:  # noqa: BLE001 - also what a callback of the application raised; it comes out at the end
        errors.append(error)
