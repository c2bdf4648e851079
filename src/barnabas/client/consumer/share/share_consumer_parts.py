"""Puts a share consumer together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import anatomy
from barnabas.client.client_utils import metric_config
from barnabas.client.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
from barnabas.client.consumer.consumer_metrics import RebalanceMetrics
from barnabas.client.consumer.consumer_parts import (
    application_metadata,
    consumer_network_client,
    coordinator_settings,
    membership_parts,
)
from barnabas.client.consumer.coordinator.coordinator import CoordinatorParts
from barnabas.client.consumer.coordinator.reconciling_coordinator import ReconcilingCoordinator
from barnabas.client.consumer.fetching.fetch_config import FetchConfig
from barnabas.client.consumer.membership.consumer_membership_manager import ConsumerMembershipManager
from barnabas.client.consumer.membership.core import MembershipCore
from barnabas.client.consumer.membership.share_group_heartbeat import ShareHeartbeatState
from barnabas.client.consumer.share.assignment_by_leader import AssignmentByLeader
from barnabas.client.consumer.share.outcomes import Outcomes
from barnabas.client.consumer.share.share_consume_request_manager import Patience, ShareConsumeRequestManager
from barnabas.client.consumer.share.share_fetch_metrics import ShareFetchMetrics
from barnabas.client.consumer.share.share_requests import RECORD_LIMIT, ShareMember
from barnabas.client.consumer.subscription_state import SubscriptionState
from barnabas.protocol.kafka_uuid import random_uuid, to_text

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.share.share_consumer_config import ShareConsumerConfig
    from barnabas.client.environment import Environment


class ShareConsumerParts(NamedTuple):
    """The parts of a share consumer."""

    config: ShareConsumerConfig
    environment: Environment
    subscriptions: SubscriptionState
    metadata: ConsumerMetadata
    client: ConsumerNetworkClient
    requests: ShareConsumeRequestManager
    coordinator: ReconcilingCoordinator


def share_consumer_parts(config: ShareConsumerConfig, environment: Environment) -> ShareConsumerParts:
    """Make all parts; nothing is connected and no thread of the consumer runs yet."""
    anatomy.record_if_asked("client")
    # Positions are the brokers' business: those of the subscription are not used.
    subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse("latest"))
    metadata = application_metadata(config, environment, subscriptions)
    client = consumer_network_client(config, environment, metadata)
    member_id = to_text(random_uuid(environment.random))
    acquire_mode = config.acquire_mode
    requests = ShareConsumeRequestManager(
        client,
        AssignmentByLeader(metadata, subscriptions, one_at_a_time=acquire_mode == RECORD_LIMIT),
        ShareMember(str(config.group_id), member_id, acquire_mode),
        FetchConfig.of(config, config.key_deserializer, config.value_deserializer),
        Outcomes(ShareFetchMetrics(metric_config(config)), environment.clock),
        Patience(config.get_seconds("retry.backoff.ms"), config.get_seconds("default.api.timeout.ms")),
    )
    coordinator = _coordinator(config, environment, subscriptions, metadata, member_id, client.client.wakeup)
    return ShareConsumerParts(config, environment, subscriptions, metadata, client, requests, coordinator)


def _coordinator(
    config: ShareConsumerConfig,
    environment: Environment,
    subscriptions: SubscriptionState,
    metadata: ConsumerMetadata,
    member_id: str,
    wake_application: Callable[[], object],
) -> ReconcilingCoordinator:
    client, group, heartbeat, backoff = membership_parts(config, environment, session_timeout=inf)
    request = ShareHeartbeatState(group, member_id, config["client.rack"] or None)
    membership = MembershipCore(
        client, group, heartbeat, backoff, wake_application, partial(ConsumerMembershipManager, request=request)
    )

    def start() -> Callable[[float], object]:
        return environment.run(membership, f"kafka-coordinator-heartbeat-thread | {group.group_id}")

    rebalances = RebalanceMetrics(environment.clock, metric_config(config))
    settings = coordinator_settings(config, auto_commit_interval=None)
    return ReconcilingCoordinator(
        CoordinatorParts(membership, subscriptions, metadata, settings, rebalances, start, lambda offsets: None)
    )
