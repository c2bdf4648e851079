"""What a consumer counts about its polls, its group and its commits, under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.client.consumer.fetch_metrics import FETCH_GROUP
from barnabas.errors import IllegalStateError
from barnabas.network.metric_group import PARTITION, TOPIC, MetricGroup
from barnabas.network.statistic import NAN, Statistic
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.subscription_state import SubscriptionState

_HEARTBEATS: Final = (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)


class PollMetrics:
    """Kafka's consumer-metrics. Belongs to the application's thread; times in seconds."""

    def __init__(self) -> None:
        self._between = Statistic()
        self._last_poll = NAN
        self._waited = 0.0
        self._worked = 0.0
        self._ended_at = NAN

    def poll_began(self, now: float) -> None:
        """`poll` was called."""
        if self._last_poll == self._last_poll:  # a number
            self._between.record((now - self._last_poll) * 1000)
            self._worked += now - self._ended_at
        self._last_poll = now

    def poll_ended(self, now: float) -> None:
        """`poll` returns."""
        self._waited += now - self._last_poll
        self._ended_at = now

    def as_dict(self, now: float) -> dict[str, float]:
        """Times in milliseconds, but for the one that is in seconds by its name."""
        total = self._waited + self._worked
        return {
            "time-between-poll-avg": self._between.average,
            "time-between-poll-max": self._between.maximum,
            "last-poll-seconds-ago": now - self._last_poll,
            "poll-idle-ratio-avg": self._waited / total if total else NAN,
        }


class RebalanceMetrics:
    """How often and how long the group rebalanced, as seen by this member. Belongs to the application's thread."""

    def __init__(self) -> None:
        self._latency = Statistic()
        self._began_at: float | None = None
        self._ended_at = NAN
        self.failed = 0

    def began(self, now: float) -> None:
        """A rebalance began, unless one was under way."""
        if self._began_at is None:
            self._began_at = now

    def ended(self, now: float) -> None:
        """The member has its assignment."""
        if self._began_at is not None:
            self._latency.record((now - self._began_at) * 1000)
        self._began_at, self._ended_at = None, now

    def given_up(self) -> None:
        """The rebalance under way, if there is one, led nowhere."""
        self.failed += self._began_at is not None
        self._began_at = None

    def as_dict(self, now: float) -> dict[str, float]:
        """Part of Kafka's consumer-coordinator-metrics; times in milliseconds."""
        return {
            "rebalance-total": self._latency.count,
            "rebalance-latency-avg": self._latency.average,
            "rebalance-latency-max": self._latency.maximum,
            "rebalance-latency-total": self._latency.total,
            "failed-rebalance-total": self.failed,
            "last-rebalance-seconds-ago": now - self._ended_at,
        }


def partition_metrics(subscriptions: SubscriptionState, *, read_committed: bool) -> list[MetricGroup]:
    """The part of Kafka's consumer-fetch-manager-metrics that is by partition, of those assigned now.

    Nothing is kept for it: the position and what the last fetch told of the log are enough.
    """
    found = []
    for partition in subscriptions.assigned_partitions:
        try:
            lag = subscriptions.partition_lag(partition, read_committed=read_committed)
            lead = subscriptions.partition_lead(partition)
        except IllegalStateError:
            # Another thread asks, and the partition was given up meanwhile.
            continue
        replica = subscriptions.preferred_read_replica(partition)
        values = {
            "records-lag": NAN if lag is None else lag,
            "records-lead": NAN if lead is None else lead,
            "preferred-read-replica": -1 if replica is None else replica,
        }
        tags = {TOPIC: partition.topic, PARTITION: str(partition.partition)}
        found.append(MetricGroup(FETCH_GROUP, tags, values))
    return found


def extremes(partitions: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The largest lag and the smallest lead of all partitions where they are known."""
    lags, leads = [], []
    for metrics in partitions:
        lags.append(metrics["records-lag"])
        leads.append(metrics["records-lead"])
    return {
        "records-lag-max": max((lag for lag in lags if lag == lag), default=NAN),
        "records-lead-min": min((lead for lead in leads if lead == lead), default=NAN),
    }


def coordinator_metrics(client: ConsumerNetworkClient, last_heartbeat: float, now: float) -> dict[str, float]:
    """The rest of Kafka's consumer-coordinator-metrics, from what the membership core's requests took."""
    latencies: Mapping[int, Statistic] = client.latencies
    unknown = Statistic()
    join, sync, commit = (
        latencies.get(key, unknown) for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT)
    )
    heartbeat = next((latencies[key] for key in _HEARTBEATS if key in latencies), unknown)
    return {
        "heartbeat-total": heartbeat.count,
        "heartbeat-response-time-max": heartbeat.maximum,
        "last-heartbeat-seconds-ago": now - last_heartbeat if heartbeat.count else NAN,
        "join-total": join.count,
        "join-time-avg": join.average,
        "join-time-max": join.maximum,
        "sync-total": sync.count,
        "sync-time-avg": sync.average,
        "sync-time-max": sync.maximum,
        "commit-total": commit.count,
        "commit-latency-avg": commit.average,
        "commit-latency-max": commit.maximum,
    }
