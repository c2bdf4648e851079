"""What the consumers for threads and for event loops have in common."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol

from barnabas.client.arguments import (
    PartitionLike,
    as_callback,
    as_items,
    as_listed_partitions,
    as_partition,
    as_partitions,
    as_seconds,
    as_text,
    as_topic,
)
from barnabas.client.consumer import auto_offset_reset_strategy as reset
from barnabas.client.consumer.consumer_arguments import as_offset, as_offsets, as_times, check_listener
from barnabas.client.consumer.consumer_config import ConsumerConfig
from barnabas.client.consumer.consumer_parts import consumer_parts
from barnabas.client.consumer.consumer_polling import ConsumerPolling
from barnabas.client.consumer.consumer_record import K, V
from barnabas.client.consumer.coordinator.offset_commits import OffsetCommitCallback
from barnabas.client.consumer.fetching.list_offsets import OffsetsLookup
from barnabas.client.consumer.fetching.topic_metadata_fetcher import TopicMetadataLookup
from barnabas.client.consumer.offsets import (
    ConsumerGroupMetadata,
    FetchPosition,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from barnabas.client.consumer.subscription_pattern import SubscriptionPattern
from barnabas.client.steps import Steps
from barnabas.client.telemetry.reports_telemetry import ReportsTelemetry, client_instance_id
from barnabas.errors import IllegalTypeError
from barnabas.network.metric_group import Measured, MetricGroup, by_partition, by_topic
from barnabas.network.telemetry_sender import TelemetrySender
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import PartitionInfo
    from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
    from barnabas.client.environment import Environment

OffsetLike = OffsetAndMetadata | int | tuple[int, str | None]


class ExclusiveUse(Protocol):
    """Held during calls into a consumer, for `client_id`, whose log messages are written meanwhile."""

    client_id: str

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class ConsumerBase(ReportsTelemetry, Measured, Generic[K, V]):
    """What all consumers do without waiting, whether they block their thread or live on an event loop.

    `topics` are names and dicts of settings, as given to the consumer; `use` keeps out who must not come in now.
    """

    def __init__(
        self,
        topics: Sequence[str | Mapping[str, Any]],
        environment: Environment,
        use: ExclusiveUse,
        settings: dict[str, Any],
    ) -> None:
        properties, names = split_arguments(topics, "Consumer")
        self._config = ConsumerConfig(properties, settings)
        self._parts = consumer_parts(self._config, environment)
        self._polling = ConsumerPolling(self._parts)
        self._begin_telemetry(environment)
        self._use = use
        use.client_id = self._config.client_id
        if names:
            self.subscribe(names)

    def _begin_telemetry(self, environment: Environment) -> None:
        client, coordinator = self._parts.client.client, self._parts.coordinator
        self._report_telemetry(
            self._config, self.metric_groups, self._telemetry_labels, client,
            random=environment.random, wall_clock_ms=environment.wall_clock_ms,
        )  # fmt: skip
        self._polling.telemetry = telemetry = self._telemetry
        if telemetry is not None and coordinator is not None:
            # The membership core pushes on while the application is busy with what it has read.
            client.telemetry_sender = TelemetrySender(telemetry.sender, lambda: coordinator.has_heartbeat_thread)
            coordinator.network_client.telemetry_sender = TelemetrySender(telemetry.sender)

    def _telemetry_labels(self) -> dict[str, str | None]:
        coordinator = self._parts.coordinator
        return {
            "client_rack": self._config["client.rack"],
            "group_id": self._config.group_id,
            "group_instance_id": self._config.group_instance_id,
            "group_member_id": None if coordinator is None else coordinator.group_metadata().member_id,
        }

    def _instance_id(self, timeout: float | None) -> Steps[bytes]:
        sender, client = self._telemetry_sender(timeout), self._parts.client
        wait = self._timeout(timeout)
        return client_instance_id(sender, client.client, client.poll, self._parts.environment.clock, wait)

    # --- what to read

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read these topics, or every topic whose whole name matches a pattern, sharing them with the group.

        An `re.Pattern` is matched here, against the names of all topics; a `SubscriptionPattern` by the brokers.

        Replaces an earlier subscription; an empty list ends it. Nothing is sent before `poll`. Raises
        `InvalidGroupIdError` without a group.id, `IllegalStateError` after `assign`.
        """
        with self._use:
            check_listener(listener)
            if isinstance(topics, re.Pattern):
                self._polling.subscribe_pattern(topics, listener)
                return
            if isinstance(topics, SubscriptionPattern):
                self._polling.subscribe_regex(topics, listener)
                return
            names = [
                as_topic(name, "topics")
                for name in ([topics] if isinstance(topics, str) else as_items(topics, "topics"))
            ]
            if names:
                self._polling.subscribe(names, listener)
            else:
                self._unsubscribe_in("subscribe([])")

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions, independently of other consumers; there is no rebalancing.

        Replaces an earlier assignment; an empty list ends it. Raises `IllegalStateError` after `subscribe`.
        """
        with self._use:
            chosen = as_partitions(partitions)
            if chosen:
                self._polling.assign(chosen)
            else:
                self._unsubscribe_in("assign([])")

    def subscription(self) -> set[str]:
        """Return the topics subscribed to; for a pattern those that match it so far."""
        with self._use:
            return set(self._parts.subscriptions.subscription)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        with self._use:
            return self._parts.subscriptions.assigned_partitions

    def wakeup(self) -> None:
        """End the call in progress, or the next one that would wait, with `WakeupError`.

        May be called from any thread and from signal handlers.
        """
        self._parts.client.wakeup()

    # --- positions

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Read on from this offset; what was fetched from elsewhere is dropped."""
        with self._use:
            name = as_partition(partition)
            chosen = as_offset(offset)
            leader = self._parts.metadata.leader_and_epoch(name)
            self._polling.seek(name, FetchPosition(chosen.offset, chosen.leader_epoch, leader))

    def seek_to_beginning(
        self, *partitions: TopicPartition | tuple[str, int] | Iterable[TopicPartition | tuple[str, int]]
    ) -> None:
        """Read on from the first offset of these partitions, or of all assigned; looked up by the next `poll`."""
        with self._use:
            self._polling.reset_positions(self._chosen(partitions), reset.EARLIEST)

    def seek_to_end(
        self, *partitions: TopicPartition | tuple[str, int] | Iterable[TopicPartition | tuple[str, int]]
    ) -> None:
        """Read on from the end of these partitions, or of all assigned; looked up by the next `poll`."""
        with self._use:
            self._polling.reset_positions(self._chosen(partitions), reset.LATEST)

    def pause(self, *partitions: TopicPartition | tuple[str, int] | Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Hand out nothing of these partitions until `resume`; they stay assigned."""
        with self._use:
            for partition in as_listed_partitions(partitions):
                self._polling.pause(partition)

    def resume(
        self, *partitions: TopicPartition | tuple[str, int] | Iterable[TopicPartition | tuple[str, int]]
    ) -> None:
        """End `pause` for these partitions."""
        with self._use:
            for partition in as_listed_partitions(partitions):
                self._parts.subscriptions.resume(partition)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        with self._use:
            return self._parts.subscriptions.paused_partitions

    def current_lag(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """How many records there are beyond the position, as of the last fetch; None before the first one.

        Where it is not known, as for a partition that is paused, the next `poll` asks for it.
        """
        with self._use:
            return self._polling.current_lag(as_partition(partition))

    # --- committed offsets

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetLike] | None = None,
        callback: OffsetCommitCallback | None = None,
    ) -> None:
        """Commit without waiting and without trying again.

        `callback(offsets, error or None)` runs inside a later `poll`, `commit` or `close`, in the order of the commits.
        """
        with self._use:
            chosen = None if offsets is None else as_offsets(offsets)
            self._polling.commits.commit_async(chosen, as_callback(callback, "callback"))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return what identifies this member, and what it has consumed, for a transactional producer.

        Raises `InvalidGroupIdError` without a group.
        """
        with self._use:
            return self._polling.group_metadata()

    def enforce_rebalance(self, reason: str = "") -> None:
        """Have the group rebalance with the next `poll`; for assignors whose user data changed.

        With `group.protocol=consumer` the coordinator alone decides, and this only warns. Raises
        `InvalidGroupIdError` without a group.
        """
        with self._use:
            self._polling.coordinator().enforce_rebalance(as_text(reason, "reason") or "rebalance enforced by user")

    # --- the rest

    @property
    def client_id(self) -> str:
        """The client id that goes with every request: `client.id`, or one made from the group's name."""
        return self._config.client_id

    def metric_groups(self) -> list[MetricGroup]:
        """All that is counted, in Kafka's groups: of polls, of the group, of fetches, of nodes.

        `consumer-fetch-manager-metrics` are told of all, by topic and by partition, of what is assigned now. Times are
        in milliseconds, sizes in bytes, but for names that say otherwise. May be called from any thread.
        """
        return self._polling.metric_groups()

    def topic_metrics(self) -> dict[str, dict[str, float]]:
        """Kafka's consumer-fetch-manager-metrics by topic, of the topics that something is assigned of.

        May be called from any thread.
        """
        return by_topic(self.metric_groups())

    def partition_metrics(self) -> dict[TopicPartition, dict[str, float]]:
        """Kafka's consumer-fetch-manager-metrics by partition: lag and lead of those assigned now, in records.

        `preferred-read-replica` is -1 where the leader is read from. May be called from any thread.
        """
        return by_partition(self.metric_groups())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(client_id={self.client_id!r}, group_id={self._config.group_id!r})"

    # --- inner

    @abstractmethod
    def _unsubscribe_in(self, call: str) -> None:
        """Do what `subscribe` and `assign` do with an empty list."""

    def _times(self, timestamps: Mapping[TopicPartition, int], timeout: float | None) -> Steps[Any]:
        return (yield from self._look_up(as_times(timestamps), timeout))

    def _partitions(self, topic: str, timeout: float | None) -> Steps[Sequence[PartitionInfo]]:
        topic = as_topic(topic)
        known = self._parts.metadata.fetch().topics.get(topic)
        if known is not None:
            return known.partitions
        found = yield from self._look_up_topics(topic, timeout)
        return found.get(topic, ())

    def _timeout(self, timeout: float | None) -> float:
        return self._config.get_seconds("default.api.timeout.ms") if timeout is None else as_seconds(timeout)

    def _chosen(self, partitions: tuple[PartitionLike | Iterable[PartitionLike], ...]) -> Collection[TopicPartition]:
        return as_listed_partitions(partitions) if partitions else self._parts.subscriptions.assigned_partitions

    def _bounds(
        self, partitions: Iterable[PartitionLike], timestamp: int, timeout: float | None
    ) -> Steps[dict[TopicPartition, int]]:
        found = yield from self._look_up(dict.fromkeys(as_partitions(partitions), timestamp), timeout)
        return {partition: found_at.offset for partition, found_at in found.items() if found_at is not None}

    def _look_up(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        lookup = OffsetsLookup(
            self._parts.client,
            self._parts.metadata,
            dict(timestamps),
            isolation_level=self._polling.isolation_level,
            retry_backoff=self._config.get_seconds("retry.backoff.ms"),
        )
        try:
            seconds = self._timeout(timeout)
            yield from self._polling.wait(
                lambda: lookup.is_done, lookup.tick, seconds, lambda: lookup.timed_out(seconds)
            )
        finally:
            self._parts.metadata.clear_transient_topics()
        return lookup.found

    def _look_up_topics(self, topic: str | None, timeout: float | None) -> Steps[dict[str, Sequence[PartitionInfo]]]:
        lookup = TopicMetadataLookup(
            self._parts.client,
            topic,
            allow_auto_creation=topic is not None and self._config.get_bool("allow.auto.create.topics"),
            retry_backoff=self._config.get_seconds("retry.backoff.ms"),
        )
        what = "the topics" if topic is None else f"topic {topic!r}"
        yield from self._polling.wait(
            lambda: lookup.is_done, lookup.tick, self._timeout(timeout), f"Asking about {what}"
        )
        return lookup.found


def split_arguments(arguments: Sequence[Any], what: str) -> tuple[dict[str, Any], list[str]]:
    """Return settings given as dicts, and topics."""
    properties: dict[str, Any] = {}
    topics: list[str] = []
    for argument in arguments:
        if isinstance(argument, Mapping):
            properties.update(argument)
        elif isinstance(argument, str):
            topics.append(argument)
        else:
            raise IllegalTypeError(f"{what} takes topic names and a dict of settings, not {argument!r}")
    return properties, topics
