"""What a consumer counts about its polls, its group and its commits, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from barnabas.network.sampled_stat import DEFAULT, NAN, MetricConfig, Statistic
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient

_HEARTBEATS: Final = (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT)
ASSIGNED, LOST, REVOKED = "partition-assigned", "partition-lost", "partition-revoked"
# What Kafka says how long ago was what has never been.
_NEVER: Final = -1.0


class PollMetrics:
    """Kafka's consumer-metrics. Belongs to the application's thread; times in seconds."""

    def __init__(self, config: MetricConfig = DEFAULT) -> None:
        self._between = Statistic(config)
        # What of that was spent in poll.
        self._polling = Statistic(config)
        self._last_poll: float | None = None
        self._last_took = 0.0

    def poll_began(self, now: float) -> None:
        """`poll` was called."""
        if self._last_poll is not None:
            self._between.record((now - self._last_poll) * 1000, now)
            self._polling.record(self._last_took * 1000, now)
        self._last_poll = now

    def on_poll_end(self, now: float) -> None:
        """`poll` returns."""
        if self._last_poll is not None:
            self._last_took = now - self._last_poll

    def as_dict(self, now: float) -> dict[str, float]:
        """Return times in milliseconds, but for the one that is in seconds by its name."""
        between, polling = self._between.at(now), self._polling.at(now)
        return {
            **between.averaged("time-between-poll"),
            "last-poll-seconds-ago": _NEVER if self._last_poll is None else now - self._last_poll,
            "poll-idle-ratio-avg": polling.recent_total / between.recent_total if between.recent_total else NAN,
        }


class RebalanceMetrics:
    """How often and how long the group rebalanced, as seen by this member. Belongs to the application's thread.

    `clock` gives monotonic seconds, for the time that listeners take.
    """

    def __init__(self, clock: Callable[[], float], config: MetricConfig = DEFAULT) -> None:
        self._clock = clock
        self._latency = Statistic(config)
        self._failed = Statistic(config)
        self._listeners = {kind: Statistic(config) for kind in (ASSIGNED, LOST, REVOKED)}
        self._began_at: float | None = None
        self._ended_at: float | None = None

    def on_begin(self, now: float) -> None:
        """Note that a rebalance began, unless there is one already."""
        if self._began_at is None:
            self._began_at = now

    def on_end(self, now: float) -> None:
        """Note that the member has its assignment."""
        if self._began_at is not None:
            self._latency.record((now - self._began_at) * 1000, now)
        self._began_at, self._ended_at = None, now

    def on_cancel(self, now: float) -> None:
        """Note that the present rebalance, if there is one, failed."""
        if self._began_at is not None:
            self._failed.record(1, now)
        self._began_at = None

    @contextmanager
    def listening(self, kind: str) -> Iterator[None]:
        """Take the time that a listener's method takes."""
        began = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._listeners[kind].record((now - began) * 1000, now)

    def as_dict(self, now: float) -> dict[str, float]:
        """Part of Kafka's consumer-coordinator-metrics; times in milliseconds."""
        latency = self._latency.at(now)
        found = {
            **latency.counted_per_hour("rebalance"),
            **latency.averaged("rebalance-latency"),
            "rebalance-latency-total": latency.total,
            **self._failed.at(now).counted_per_hour("failed-rebalance"),
            "last-rebalance-seconds-ago": _NEVER if self._ended_at is None else now - self._ended_at,
        }
        for kind, statistic in self._listeners.items():
            found |= statistic.at(now).averaged(f"{kind}-latency")
        return found


def coordinator_metrics(client: ConsumerNetworkClient, last_heartbeat: float, now: float) -> dict[str, float]:
    """Return the rest of Kafka's consumer-coordinator-metrics, from what the membership core's requests took."""
    latencies: Mapping[int, Statistic] = client.latencies
    unknown = Statistic()
    join, sync, commit = (
        latencies.get(key, unknown).at(now) for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT)
    )
    heartbeat = next((latencies[key] for key in _HEARTBEATS if key in latencies), unknown).at(now)
    return {
        **heartbeat.counted("heartbeat"),
        "heartbeat-response-time-max": heartbeat.maximum,
        "last-heartbeat-seconds-ago": now - last_heartbeat if heartbeat.events else _NEVER,
        **join.counted("join"),
        **join.averaged("join-time"),
        **sync.counted("sync"),
        **sync.averaged("sync-time"),
        **commit.counted("commit"),
        **commit.averaged("commit-latency"),
    }
