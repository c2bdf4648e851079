"""What the share consumers for threads and for event loops have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol

from barnabas.client.arguments import INT64, as_callback, as_integer, as_items, as_partition, as_seconds, as_topic
from barnabas.client.consumer.consumer_base import ExclusiveUse, split_arguments
from barnabas.client.consumer.consumer_record import ConsumerRecord, K, V
from barnabas.client.consumer.share.acknowledgements import AcknowledgeType, as_acknowledge_type
from barnabas.client.consumer.share.late_acknowledgements import LateAcknowledgements, Loan
from barnabas.client.consumer.share.share_consumer_config import ShareConsumerConfig
from barnabas.client.consumer.share.share_consumer_parts import share_consumer_parts
from barnabas.client.consumer.share.share_polling import AcknowledgementCommitCallback, SharePolling
from barnabas.client.steps import Steps
from barnabas.client.telemetry.reports_telemetry import ReportsTelemetry, client_instance_id
from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.network.metric_group import Measured, MetricGroup
from barnabas.network.telemetry_sender import TelemetrySender
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.environment import Environment


class LendableUse(ExclusiveUse, Loan, Protocol):
    """Keeps out who must not come in now, and lends the consumer between two calls."""


class ShareConsumerBase(ReportsTelemetry, Measured, Generic[K, V]):
    """What all share consumers do without waiting, whether they block their thread or live on an event loop.

    `topics` are names and dicts of settings, as given to the consumer; `use` keeps out who must not come in now.
    """

    def __init__(
        self,
        topics: Sequence[str | Mapping[str, Any]],
        environment: Environment,
        use: LendableUse,
        settings: dict[str, Any],
    ) -> None:
        properties, names = split_arguments(topics, "ShareConsumer")
        self._config = ShareConsumerConfig(properties, settings)
        self._parts = share_consumer_parts(self._config, environment)
        self._polling = SharePolling(self._parts)
        self._parts.coordinator.do_aside(LateAcknowledgements(self._polling, use).look)
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
        if telemetry is not None:
            # The membership core pushes on while the application is busy with what it has read.
            client.telemetry_sender = TelemetrySender(telemetry.sender, lambda: coordinator.has_heartbeat_thread)
            coordinator.network_client.telemetry_sender = TelemetrySender(telemetry.sender)

    def _telemetry_labels(self) -> dict[str, str | None]:
        return {
            "client_rack": self._config["client.rack"],
            "group_id": self._config.group_id,
            "group_member_id": self._parts.coordinator.group_metadata().member_id,
        }

    def _instance_id(self, timeout: float | None) -> Steps[bytes]:
        sender, client = self._telemetry_sender(timeout), self._parts.client
        wait = self._timeout(timeout)
        return client_instance_id(sender, client.client, client.poll, self._parts.environment.clock, wait)

    # --- what to read

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read these topics, together with the other members of the group.

        Replaces an earlier subscription. Nothing is sent before `poll`. Raises `IllegalArgumentError` for an empty
        list: `unsubscribe()` ends a subscription. Share groups know no patterns.
        """
        with self._use:
            self._polling.check_use()
            given = [topics] if isinstance(topics, str) else as_items(topics, "topics")
            names = [as_topic(name, "topics") for name in given]
            if not names:
                raise IllegalArgumentError("topics is empty; call unsubscribe() to read nothing any more")
            self._polling.subscribe(names)

    def subscription(self) -> set[str]:
        """Return the topics subscribed to."""
        with self._use:
            return set(self._parts.subscriptions.subscription)

    def wakeup(self) -> None:
        """End the call in progress, or the next one that would wait, with `WakeupError`.

        May be called from any thread and from signal handlers.
        """
        self._parts.client.wakeup()

    # --- acknowledgements

    def acknowledge(self, record: ConsumerRecord[K, V], type: AcknowledgeType | str = AcknowledgeType.ACCEPT) -> None:
        """Say what became of a record of the last `poll`; it is sent by the next `poll` or commit.

        `type` is `accept`, `release`, `reject` or `renew`. Raises `IllegalStateError` with
        share.acknowledgement.mode=implicit, and for a record that was not delivered by the last `poll`, or whose
        acknowledgement was sent.
        """
        with self._use:
            self._polling.check_use()
            if not isinstance(record, ConsumerRecord):
                raise IllegalTypeError(
                    f"record is {record!r}, a {record.__class__.__name__}; it must be a ConsumerRecord"
                )
            self._polling.acknowledge((record.topic, record.partition), record.offset, as_acknowledge_type(type))

    def acknowledge_offset(
        self,
        partition: TopicPartition | tuple[str, int],
        offset: int,
        type: AcknowledgeType | str = AcknowledgeType.ACCEPT,
    ) -> None:
        """As `acknowledge`, for a record that is named by its place.

        Such as one that `RecordDeserializationError` tells of, which is released unless something else is said here.
        """
        with self._use:
            self._polling.check_use()
            name, number = as_partition(partition), as_integer(offset, "offset", 0, INT64)
            self._polling.acknowledge(name, number, as_acknowledge_type(type))

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        """Have `callback(offsets, error or None)` called with what brokers say of acknowledgements; None ends that.

        `offsets` is a dict of one `TopicIdPartition` with the set of its offsets; of records that were given back
        without having been handed out nothing is told. It runs inside `poll`, `commit_sync`, `commit_async` or `close`,
        which raise what it raises, and must call no method of the consumer.
        """
        with self._use:
            self._polling.check_use()
            self._polling.callback = as_callback(callback, "callback")

    def commit_async(self) -> None:
        """Send what is to be said of the records of the last `poll`, without waiting.

        With implicit acknowledgement all of them are accepted. The callback is told what the brokers say, later.
        """
        with self._use:
            self._polling.check_use()
            self._polling.commit_async()

    def acquisition_lock_timeout(self) -> float | None:
        """Return the seconds that a record is kept for the consumer it was delivered to; None before the first one."""
        with self._use:
            return self._polling.acquisition_lock_timeout

    # --- the rest

    @property
    def client_id(self) -> str:
        """The client id that goes with every request: `client.id`, or one made from the group's name."""
        return self._config.client_id

    def metric_groups(self) -> list[MetricGroup]:
        """All that is counted, in Kafka's groups: of polls, of the group, of fetches and acknowledgements, of nodes.

        Times are in milliseconds, sizes in bytes, but for names that say otherwise. May be called from any thread.
        """
        return self._polling.metric_groups()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(client_id={self.client_id!r}, group_id={self._config.group_id!r})"

    def _timeout(self, timeout: float | None) -> float:
        return self._config.get_seconds("default.api.timeout.ms") if timeout is None else as_seconds(timeout)
