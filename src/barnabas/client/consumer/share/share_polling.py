"""The application's core of a share consumer at work: everything that `ShareConsumer` does by waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from barnabas.client.client_utils import metric_config
from barnabas.client.consumer.consumer_metrics import PollMetrics
from barnabas.client.consumer.consumer_polling import attempt
from barnabas.client.consumer.consumer_records import EMPTY, ConsumerRecords
from barnabas.client.consumer.membership.messages import GroupMembershipOperation
from barnabas.client.consumer.record_iteration import RecordIteration
from barnabas.client.consumer.share.acknowledgements import AcknowledgeType
from barnabas.client.consumer.share.fetch_ahead import FetchAhead
from barnabas.client.consumer.share.share_fetch import NodeAcknowledgements, ShareFetch, Undelivered
from barnabas.client.consumer.share.share_fetch_metrics import SHARE_FETCH_GROUP
from barnabas.client.consumer.share.share_requests import RECORD_LIMIT
from barnabas.client.steps import Steps, call
from barnabas.client.telemetry.reports_telemetry import begin_last_push, last_push
from barnabas.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from barnabas.network.log_context import client_logger
from barnabas.network.metric_group import MetricGroup, with_app_info
from barnabas.network.network_metrics import network_metrics, node_metrics
from barnabas.protocol.topic_partition import TopicIdPartition, TopicPartition
from barnabas.records.decoder import EncodedRecords

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.consumer.share.acknowledgements import Acknowledgements
    from barnabas.client.consumer.share.share_completed_fetch import ShareCompletedFetch
    from barnabas.client.consumer.share.share_consumer_parts import ShareConsumerParts
    from barnabas.client.consumer.share.share_fetch import ShareInFlightBatch
    from barnabas.client.telemetry.client_telemetry_reporter import ClientTelemetryReporter

log = client_logger("barnabas.consumer")

#: `callback(offsets, error or None)`, once for each partition and answer of a broker.
AcknowledgementCommitCallback = Callable[[dict[TopicIdPartition, set[int]], KafkaError | None], object]

# Seconds that the heartbeat thread has to leave the group, where the application does not wait for it, and that brokers
# have to take records back.
_FAREWELL = 5.0
# An application that has not come for so many seconds has what it said sent between its calls.
_AWAY = 0.1
# Records are handed out that came over a connection which was seen to go on within so many seconds.
_UNSEEN = 0.005
#: Of the metrics of a group, those that Kafka's share consumers have.
_OF_GROUP = frozenset(
    [
        "heartbeat-rate",
        "heartbeat-total",
        "heartbeat-response-time-max",
        "last-heartbeat-seconds-ago",
        "rebalance-total",
        "rebalance-rate-per-hour",
    ]
)
_IN_CALLBACK = "The methods of a share consumer cannot be called from its acknowledgement commit callback"


class SharePolling:
    """Drives the application's core. All methods belong to the application.

    Methods that wait return the `Steps` of it, to be run by the thread or on an event loop.
    """

    def __init__(self, parts: ShareConsumerParts) -> None:
        self._parts = parts
        # Whether no call waits any more for the poll in progress, which is to hand out nothing therefore.
        self.is_abandoned = False
        self._clock = parts.environment.clock
        self._started_at_ms = parts.environment.wall_clock_ms()
        self._client = parts.client
        self._subscriptions = parts.subscriptions
        self._coordinator = parts.coordinator
        self._requests = parts.requests
        self._retry_backoff = parts.config.get_seconds("retry.backoff.ms")
        self._api_timeout = parts.config.get_seconds("default.api.timeout.ms")
        self._max_poll_records = parts.config.get_int("max.poll.records")
        self._is_strict = parts.config.acquire_mode == RECORD_LIMIT
        self.is_implicit = not parts.config.is_explicit
        self._metrics = PollMetrics(metric_config(parts.config))
        #: What is told to the cluster; None when nothing is.
        self.telemetry: ClientTelemetryReporter | None = None
        self.iteration = RecordIteration()
        self.callback: AcknowledgementCommitCallback | None = None
        self._is_in_callback = False
        # What the callback is still to be told.
        self._told: deque[tuple[TopicIdPartition, Acknowledgements]] = deque()
        self._current = ShareFetch()
        self._arrow: Any = None
        self._ahead = FetchAhead(self._max_poll_records, is_strict=self._is_strict)
        # When it was seen last which connections have ended.
        self._looked_at = -inf
        # An exception from outside ended a call in its middle.
        self._is_torn = False

    # --- subscription

    def check_use(self) -> None:
        """Refuse calls from the callback. Raises `IllegalStateError`."""
        if self._is_in_callback:
            raise IllegalStateError(_IN_CALLBACK)

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe to topics."""
        if self._subscriptions.subscribe(topics, None):
            self._parts.metadata.request_update_for_new_topics()

    def unsubscribe(self) -> Steps[None]:
        """Read nothing any more: give back what was not handed out, and leave the group."""
        now = self._clock()

        def is_done() -> bool:
            self._requests.give_back(self._clock(), everything=True)
            return self._requests.is_quiet and not self._requests.awaits_answers

        try:
            # What is on its way here comes with locks as well.
            yield from self._wait(is_done, now + _FAREWELL)
            if self._subscriptions.has_auto_assigned_partitions:
                yield from self._coordinator.leave("the consumer unsubscribed from all topics")
        finally:
            self._subscriptions.unsubscribe()

    # --- poll

    def poll(self, timeout: float) -> Steps[ConsumerRecords]:
        """See `ShareConsumer.poll`."""
        return (yield from self._poll(timeout, self._collect, self._handed_out)) or EMPTY

    def poll_arrow(self, timeout: float) -> Steps[pa.RecordBatch | None]:
        """See `ShareConsumer.poll_arrow`."""
        from barnabas.records.arrow import ALL_COLUMNS, ColumnBuilder

        builder = ColumnBuilder(ALL_COLUMNS)

        def collect(now: float) -> bool:
            return self._collect_fetches(now, lambda fetch, batch, _: fetch.take_arrow(batch, builder))

        return (yield from self._poll(timeout, collect, builder.finish))

    def _poll(self, timeout: float, collect: Callable[[float], bool], result: Callable[[], Any]) -> Steps[Any]:
        self._check_poll()
        self._recover()
        yield from self._tell_callback()
        now = self._clock()
        self._metrics.poll_began(now)
        self._ahead.came(now)
        try:
            self._raise_errors()
            # Before the coordinator reads what it is told, for a look takes the wakeup that tells of it.
            self._look_at_connections(now)
            yield from self._coordinator.poll(now)
            rest = self.iteration.rest()
            self._acknowledge_last(_ranges(rest), now)
            if rest:
                return self._hand_out_rest(rest, now)
            self._raise_errors()
            self._take_answers()
            if not (yield from self._poll_until(now + timeout, now, collect)):
                self._ahead.found_nothing()
                return None
            self._send_ahead()
            return result()
        finally:
            now = self._clock()
            self._ahead.went(now)
            self._metrics.on_poll_end(now)

    def _look_at_connections(self, now: float) -> None:
        """Take what was answered; connections may have ended since, and the locks with them."""
        self._client.complete_answered(now)
        if self._requests.buffer.fetches and now - self._looked_at > _UNSEEN:
            self._transmit(now)
            self._client.complete_answered(now)

    def _transmit(self, now: float) -> None:
        self._client.transmit_sends(now)
        self._looked_at = now

    def _poll_until(self, deadline: float, now: float, collect: Callable[[float], bool]) -> Steps[bool]:
        began = now
        while True:
            self._client.maybe_trigger_wakeup()
            if self.is_abandoned:
                return False
            if collect(now):
                self._ahead.waited(now - began)
                return True
            self._requests.tick(now, polls=0 if self._current.has_renewals else 1)
            wait = min(deadline - now, self._coordinator.time_to_next_poll(now), self._requests.time_to_next(now))
            now = self._client.poll(max(0.0, wait), now, should_block=self._has_nothing_to_collect)
            self._looked_at = now
            self._parts.metadata.raise_any_error()
            self._raise_errors()
            self._take_answers()
            if collect(now):
                self._ahead.waited(now - began)
                return True
            if now >= deadline:
                yield from self._tell_callback()
                return False
            yield None
            now = self._clock()
            yield from self._coordinator.poll(now)

    def _check_poll(self) -> None:
        if self._subscriptions.has_no_subscription_or_user_assignment:
            raise IllegalStateError("There is nothing to poll: subscribe() to topics first")
        self._coordinator.ensure_heartbeat_thread()

    def _hand_out_rest(self, rest: dict[TopicPartition, Any], now: float) -> ConsumerRecords:
        """Return the records that a loop over the consumer was left with."""
        self._send(now)
        self.iteration.clear()
        return ConsumerRecords(rest, {})

    def _acknowledge_last(self, undelivered: Undelivered, now: float) -> None:
        """Have sent what is to be said of the records that were handed out."""
        left = 0 if self.is_implicit else self._current.unacknowledged(undelivered)
        if left:
            raise IllegalStateError(
                f"{left} records of the last poll() are not acknowledged; with share.acknowledgement.mode=explicit "
                "each has to be before the next poll(): call acknowledge(record), or release it"
            )
        said = self._current.take_acknowledged(undelivered, is_implicit=self.is_implicit)
        if any(one.has_renewals for _, one in said.values()):
            self._requests.commit_async(said, now + self._api_timeout)
        else:
            self._requests.piggyback(said)

    def _send_ahead(self) -> None:
        """Send what is to be said, with a fetch for an application that comes back soon; wait for nothing."""
        now, is_held_up = self._clock(), self._current.has_renewals or self._requests.has_read_all
        waiting = self._requests.buffer.count
        polls = 0 if is_held_up else self._ahead.polls(len(self._current), waiting)
        if polls or not waiting or not self._ahead.is_hurried:
            self._requests.tick(now, polls=polls, is_ahead=True)
        if self._client.has_pending_requests:
            self._transmit(now)

    def _has_nothing_to_collect(self) -> bool:
        # Before renewals are answered nothing else is handed out.
        return self._current.has_renewals or not self._requests.buffer.fetches

    def _raise_errors(self) -> None:
        if self._requests.errors:
            raise self._requests.errors.popleft()

    def _send(self, now: float) -> None:
        """Send what waits to be said, without waiting for an answer."""
        # What was read before belongs to the connection of then, which this look may find ended.
        self._client.complete_answered(now)
        self._requests.tick(now, polls=0)
        self._transmit(now)

    # --- collecting

    def _collect(self, now: float) -> bool:
        """Put records into `_current`; tells whether there are any."""
        if self._current.take_renewed():
            return True
        if self._current.has_renewals:
            return False
        return self._collect_fetches(
            now, lambda fetch, batch, wanted: fetch.take(batch, wanted, is_strict=self._is_strict)
        )

    def _collect_fetches(self, now: float, take: Callable[[ShareCompletedFetch, ShareInFlightBatch, int], int]) -> bool:
        self._requests.give_back(now)
        fetches, left = self._requests.buffer.fetches, self._max_poll_records
        while fetches and left > 0:
            fetch = fetches[0]
            try:
                found = take(fetch, self._current.batch(fetch.lock.node_id, fetch.partition), left)
            except KafkaError:
                if left < self._max_poll_records:
                    break
                raise
            left -= found
            if not fetch.is_consumed:
                break
            fetches.popleft()
        if left == self._max_poll_records:
            # What was acquired has no records, which the next fetch says.
            self._requests.piggyback(self._current.take_acknowledged({}, is_implicit=False))
        return left < self._max_poll_records

    def _handed_out(self) -> ConsumerRecords:
        """Return what `_current` has."""
        found = {name: _as_one(batch.runs) for name, batch in self._current.batches.items() if len(batch)}
        return ConsumerRecords(found, {})

    @property
    def acquisition_lock_timeout(self) -> float | None:
        """Return the seconds that a record is kept for the consumer it was delivered to; None before the first one."""
        told = self._requests.acquisition_lock_timeout_ms
        return None if told is None else told / 1000

    def send_late(self, now: float) -> float:
        """Send what waits here, for an application that does not come; returns the seconds until it makes sense again.

        Called between two calls of the application, maybe from another thread. Waits for nothing, tells the callback
        nothing.
        """
        due_in, requests = self._ahead.left_at + _AWAY - now, self._requests
        if self._is_torn or due_in > 0:
            return inf if self._is_torn else due_in
        if requests.buffer.fetches:
            requests.give_back(now)
        if requests.is_quiet:
            # A fetch that is in flight is not read here: the time in which its records may be handed out would begin.
            return inf
        self._send(now)
        self._client.complete_answered(now)
        return _AWAY

    # --- commits

    def acknowledge(self, partition: tuple[str, int], offset: int, kind: AcknowledgeType) -> None:
        """See `ShareConsumer.acknowledge`."""
        if self.is_implicit:
            raise IllegalStateError(
                "Records are acknowledged implicitly, by the next poll() or commit_sync(): to acknowledge each, set "
                "share_acknowledgement_mode='explicit'"
            )
        if kind is AcknowledgeType.RENEW and (batch := self._current.batches.get(TopicPartition(*partition))):
            self._requests.check_renewal(batch.node_id)
        self._current.acknowledge(partition, offset, kind)

    def commit_sync(self, timeout: float) -> Steps[dict[TopicIdPartition, KafkaError | None]]:
        """See `ShareConsumer.commit_sync`."""
        self._recover()
        yield from self._tell_callback()
        now = self._clock()
        said = self._take()
        result = self._requests.commit_sync(said, now + timeout)
        yield from self._wait(lambda: result.is_done, now + timeout)
        yield from self._tell_callback()
        late = KafkaTimeoutError(
            f"The broker did not answer within {timeout:g} s{self._client.client.failure_to_connect}"
        )
        return {partition: result.errors.get(partition, late) for partition in said}

    def commit_async(self) -> None:
        """See `ShareConsumer.commit_async`."""
        self._recover()
        now = self._clock()
        self._requests.commit_async(self._take(), now + self._api_timeout)
        self._send(now)

    def _take(self) -> NodeAcknowledgements:
        undelivered = _ranges(self.iteration.rest())
        return self._current.take_acknowledged(undelivered, is_implicit=self.is_implicit)

    def run_callback(self) -> Steps[None]:
        """Tell the callback what brokers said since."""
        yield from self._tell_callback()

    def _take_answers(self) -> None:
        answered = self._requests.answered
        while answered:
            partition, said = answered.popleft()
            self._current.on_answered(partition, said)
            if self.callback is not None:
                self._told.append((partition, said))

    def _tell_callback(self) -> Steps[None]:
        self._take_answers()
        while self._told:
            partition, said = self._told.popleft()
            if self.callback is None or not (offsets := said.offsets()):
                continue
            self._is_in_callback = True
            try:
                yield from call(self.callback, {partition: offsets}, said.error)
            finally:
                self._is_in_callback = False

    def _wait(self, is_done: Callable[[], bool], deadline: float) -> Steps[None]:
        """Send and poll the network until `is_done`, or until the deadline."""
        now = self._clock()
        while not is_done():
            self._client.maybe_trigger_wakeup()
            self._requests.tick(now, polls=0)
            if is_done():
                return
            wait = min(deadline - now, self._retry_backoff, self._requests.time_to_next(now))
            now = self._client.poll(max(0.0, wait), now)
            if is_done() or now >= deadline:
                return
            yield None
            now = self._clock()

    # --- what came in between

    def begin_anew(self) -> None:
        """Drop everything with the next call: an exception may have come between two changes."""
        self._is_torn = True
        # The calls that the callback makes are refused, so this one is not its.
        self._is_in_callback = False

    def take_back(self) -> None:
        """See `begin_anew`: what a poll collected that was interrupted is delivered again."""
        self.begin_anew()

    def _recover(self) -> None:
        if not self._is_torn:
            return
        log.warning("A call was interrupted by an exception: what was delivered and not committed is delivered again")
        self.iteration.clear()
        self._current.clear()
        self._subscriptions.repair()
        self._coordinator.begin_anew()
        # With its connections the sessions end, and the brokers release what this consumer has.
        self._client.recover()
        self._is_torn = False

    def metric_groups(self) -> list[MetricGroup]:
        """See `ShareConsumer.metric_groups`."""
        now, coordinator = self._clock(), self._coordinator
        network = [self._client.client.metrics, coordinator.network_client.metrics]
        of_group = {name: value for name, value in coordinator.metrics(now).items() if name in _OF_GROUP}
        groups = [
            MetricGroup("consumer-metrics", {}, network_metrics(network, now)),
            MetricGroup("consumer-share-metrics", {}, self._metrics.as_dict(now)),
            MetricGroup("consumer-share-coordinator-metrics", {}, of_group),
            MetricGroup(SHARE_FETCH_GROUP, {}, self._requests.metrics.as_dict(now)),
            *node_metrics("consumer-node-metrics", network, now),
        ]
        return with_app_info(groups, self._started_at_ms)

    # --- the end

    def close(self, timeout: float) -> Steps[None]:
        """See `ShareConsumer.close`. Every step is taken, and the first error raised at the end."""
        deadline = self._clock() + timeout
        errors: list[BaseException] = []
        self._client.disable_wakeups()
        self._recover()
        yield from attempt(errors, self._close_sessions(min(deadline, self._clock() + self._client.request_timeout)))
        coordinator = self._coordinator
        if coordinator.has_heartbeat_thread:
            before = len(errors)
            yield from attempt(errors, self._leave_group())
            if len(errors) > before:
                coordinator.leave_at_once(GroupMembershipOperation.DEFAULT)
        begin_last_push(self.telemetry, self._clock())
        yield from coordinator.stop_heartbeat_thread(self._clock(), deadline)
        yield from attempt(errors, self._tell_callback())
        yield from attempt(errors, last_push(self.telemetry, self._client.poll, self._clock, deadline))
        self._client.client.close()
        if errors:
            raise errors[0]

    def abandon(self) -> None:
        """End what `close` could not: the heartbeat thread leaves the group by itself, and the connections close."""
        self._coordinator.abandon(GroupMembershipOperation.DEFAULT, self._clock() + _FAREWELL)
        self._client.client.close()

    def _close_sessions(self, deadline: float) -> Steps[None]:
        """Say what was said of records; the end of a session releases the others."""
        said = self._current.take_acknowledged({}, is_implicit=False)
        self._current.clear()
        self._requests.close(said, deadline)
        yield from self._wait(lambda: self._requests.is_quiet, deadline)

    def _leave_group(self) -> Steps[None]:
        if self._subscriptions.has_auto_assigned_partitions:
            yield from self._coordinator.leave("the consumer is being closed")


def _as_one(runs: list[Any]) -> Any:
    """Return the records of several fetches of one partition together."""
    first, *others = runs
    if not others:
        return first
    if all(isinstance(run, EncodedRecords) for run in runs):
        joined = EncodedRecords()
        for run in runs:
            joined.extend(run)
        return joined
    return [record for run in runs for record in run]


def _ranges(rest: Mapping[TopicPartition, Any]) -> Undelivered:
    return {name: [(records[0].offset, records[-1].offset)] for name, records in rest.items()}
