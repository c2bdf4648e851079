"""Puts a consumer together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import anatomy
from barnabas.client.client_utils import metric_config
from barnabas.client.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from barnabas.client.consumer.consumer_interceptors import ConsumerInterceptors
from barnabas.client.consumer.consumer_metadata import ConsumerMetadata, CoordinatorMetadata
from barnabas.client.consumer.consumer_metrics import RebalanceMetrics
from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
from barnabas.client.consumer.coordinator.classic_coordinator import ClassicCoordinator
from barnabas.client.consumer.coordinator.coordinator import Coordinator, CoordinatorParts
from barnabas.client.consumer.coordinator.coordinator_settings import CoordinatorSettings
from barnabas.client.consumer.coordinator.reconciling_coordinator import ReconcilingCoordinator
from barnabas.client.consumer.fetching.fetch_collector import FetchCollector
from barnabas.client.consumer.fetching.fetch_config import FetchConfig
from barnabas.client.consumer.fetching.fetch_metrics import FetchMetrics
from barnabas.client.consumer.fetching.fetcher import Fetcher
from barnabas.client.consumer.fetching.offset_fetcher import OffsetFetcher
from barnabas.client.consumer.membership.consumer_group_heartbeat import HeartbeatState
from barnabas.client.consumer.membership.consumer_membership_manager import ConsumerMembershipManager
from barnabas.client.consumer.membership.core import MembershipCore
from barnabas.client.consumer.membership.group_requests import GroupIdentity
from barnabas.client.consumer.membership.heartbeat import Heartbeat
from barnabas.client.consumer.subscription_state import SubscriptionState
from barnabas.client.metadata import MetadataRefresh
from barnabas.network.exponential_backoff import ExponentialBackoff
from barnabas.protocol.kafka_uuid import random_uuid, to_text

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_config import ConsumerConfig
    from barnabas.client.consumer.coordinator.offset_commits import Offsets
    from barnabas.client.environment import Environment
    from barnabas.client.metadata import Metadata


class ConsumerParts(NamedTuple):
    """The parts of a consumer; the coordinator is None without a group id."""

    config: ConsumerConfig
    environment: Environment
    subscriptions: SubscriptionState
    metadata: ConsumerMetadata
    client: ConsumerNetworkClient
    fetcher: Fetcher
    collector: FetchCollector
    offset_fetcher: OffsetFetcher
    coordinator: Coordinator | None
    interceptors: ConsumerInterceptors


def consumer_parts(config: ConsumerConfig, environment: Environment) -> ConsumerParts:
    """Make all parts; nothing is connected and no thread of the consumer runs yet."""
    anatomy.record_if_asked("client")
    subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse(config.get_str("auto.offset.reset")))
    metadata = application_metadata(config, environment, subscriptions)
    client = consumer_network_client(config, environment, metadata)
    fetch_config = FetchConfig.of(config, config.key_deserializer, config.value_deserializer)
    retry_backoff = config.get_seconds("retry.backoff.ms")
    fetch_metrics = FetchMetrics(metric_config(config))
    fetcher = Fetcher(client, metadata, subscriptions, fetch_config, fetch_metrics, retry_backoff=retry_backoff)
    offset_fetcher = OffsetFetcher(
        client,
        metadata,
        subscriptions,
        isolation_level=fetch_config.isolation_level,
        retry_backoff=retry_backoff,
        wall_clock_ms=environment.wall_clock_ms,
    )
    interceptors = ConsumerInterceptors(config["interceptor.classes"], config.given)
    coordinator = None
    if config.group_id is not None:
        membership = _membership_core(config, environment, client.client.wakeup)
        coordinator = _coordinator(config, environment, membership, subscriptions, metadata, interceptors.on_commit)
    collector = FetchCollector(fetcher, subscriptions, metadata)
    return ConsumerParts(
        config=config,
        environment=environment,
        subscriptions=subscriptions,
        metadata=metadata,
        client=client,
        fetcher=fetcher,
        collector=collector,
        offset_fetcher=offset_fetcher,
        coordinator=coordinator,
        interceptors=interceptors,
    )


def application_metadata(
    config: ConsumerConfig, environment: Environment, subscriptions: SubscriptionState
) -> ConsumerMetadata:
    """Make what the application's core knows of the cluster."""
    return ConsumerMetadata(
        subscriptions,
        MetadataRefresh.of(config, environment.random),
        allow_auto_create_topics=config.get_bool("allow.auto.create.topics"),
        exclude_internal_topics=config.get_bool("exclude.internal.topics"),
    )


def consumer_network_client(
    config: ConsumerConfig, environment: Environment, metadata: Metadata
) -> ConsumerNetworkClient:
    """Make the way to the network of one core."""
    return ConsumerNetworkClient(
        environment.network_client(config, config.client_id, metadata),
        environment.clock,
        retry_backoff=config.get_seconds("retry.backoff.ms"),
        request_timeout=config.get_seconds("request.timeout.ms"),
        metric_config=metric_config(config),
    )


class MembershipParts(NamedTuple):
    """What a membership core works with: its network, its identity, its timers."""

    client: ConsumerNetworkClient
    group: GroupIdentity
    heartbeat: Heartbeat
    backoff: Callable[[int], float]


def membership_parts(config: ConsumerConfig, environment: Environment, *, session_timeout: float) -> MembershipParts:
    """Make them; `session_timeout` is in seconds, infinity where the coordinator alone knows it."""
    metadata = CoordinatorMetadata(MetadataRefresh.of(config, environment.random))
    backoff = ExponentialBackoff(
        config.get_seconds("retry.backoff.ms"), config.get_seconds("retry.backoff.max.ms"), environment.random
    ).backoff
    heartbeat = Heartbeat(
        session_timeout=session_timeout,
        interval=config.get_seconds("heartbeat.interval.ms"),
        max_poll_interval=config.get_seconds("max.poll.interval.ms"),
        backoff=backoff,
    )
    group = GroupIdentity(
        str(config.group_id),
        config.group_instance_id,
        config.get_int("session.timeout.ms"),
        config.get_int("max.poll.interval.ms"),
    )
    return MembershipParts(consumer_network_client(config, environment, metadata), group, heartbeat, backoff)


def coordinator_settings(config: ConsumerConfig, *, auto_commit_interval: float | None) -> CoordinatorSettings:
    """Return the settings of the application's side of a group."""
    return CoordinatorSettings(
        group_id=str(config.group_id),
        group_instance_id=config.group_instance_id,
        auto_commit_interval=auto_commit_interval,
        rebalance_timeout=config.get_seconds("max.poll.interval.ms"),
        api_timeout=config.get_seconds("default.api.timeout.ms"),
        retry_backoff=config.get_seconds("retry.backoff.ms"),
    )


def _membership_core(
    config: ConsumerConfig, environment: Environment, wake_application: Callable[[], object]
) -> MembershipCore:
    # In the consumer protocol the coordinator alone knows the session's timeout, and tells the interval.
    session_timeout = inf if config.is_consumer_protocol else config.get_seconds("session.timeout.ms")
    client, group, heartbeat, backoff = membership_parts(config, environment, session_timeout=session_timeout)
    if not config.is_consumer_protocol:
        return MembershipCore(client, group, heartbeat, backoff, wake_application)
    membership = partial(
        ConsumerMembershipManager,
        request=HeartbeatState(
            group,
            to_text(random_uuid(environment.random)),
            server_assignor=config["group.remote.assignor"],
            rack_id=config["client.rack"] or None,
        ),
    )
    return MembershipCore(client, group, heartbeat, backoff, wake_application, membership)


def _coordinator(
    config: ConsumerConfig,
    environment: Environment,
    membership: MembershipCore,
    subscriptions: SubscriptionState,
    metadata: ConsumerMetadata,
    on_commit: Callable[[Offsets], object],
) -> Coordinator:
    group_id = str(config.group_id)
    interval = config.get_seconds("auto.commit.interval.ms") if config.enable_auto_commit else None
    settings = coordinator_settings(config, auto_commit_interval=interval)
    rebalances = RebalanceMetrics(environment.clock, metric_config(config))

    def start() -> Callable[[float], object]:
        return environment.run(membership, f"kafka-coordinator-heartbeat-thread | {group_id}")

    parts = CoordinatorParts(membership, subscriptions, metadata, settings, rebalances, start, on_commit)
    if config.is_consumer_protocol:
        return ReconcilingCoordinator(parts)
    return ClassicCoordinator(parts, assignors=config.assignors, rack_id=config["client.rack"] or None)
