"""What handlers see of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.fetch_session import FetchSessionCache
from barnabas.broker.piecewise import PiecewiseResponses, ResponseRoom
from barnabas.broker.purgatory import DelayedOperation, Purgatory
from barnabas.broker.security.authorized_operations import AUTHORIZED_OPERATIONS

if TYPE_CHECKING:
    import random

    from barnabas.broker.client_metrics.client_metrics_manager import ClientMetricsManager
    from barnabas.broker.client_quota_manager import ClientQuotas
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.config_admin_manager import ConfigAdmin
    from barnabas.broker.groups.group_coordinator import GroupCoordinator
    from barnabas.broker.loggers import Loggers
    from barnabas.broker.member_port import MemberPort
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata, Done
    from barnabas.broker.metadata.metadata_cache import ClusterView
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.security.authorization import Authorization
    from barnabas.broker.security.delegation_tokens import DelegationTokens
    from barnabas.broker.share.coordinator.share_coordinator import ShareCoordinator
    from barnabas.broker.share.share_partition_manager import SharePartitionManager
    from barnabas.broker.streams_internal_topics import StreamsInternalTopics
    from barnabas.broker.topic_admin import TopicAdmin
    from barnabas.broker.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
    from barnabas.broker.transactions.producer_id_manager import ProducerIdManager
    from barnabas.broker.transactions.transaction_coordinator import TransactionCoordinator
    from barnabas.errors import KafkaError
    from barnabas.protocol.kinds import ResourceType
    from barnabas.protocol.message import Message


Response = TypeVar("Response", bound="Message")


class BrokerState:
    """The parts of one broker, as attributes; one instance per broker, given to every handler.

    - `config`: the settings, `config["num.partitions"]`;
    - `metadata`: topics, their ids and configs, the cluster's id; changes to them;
    - `topic_admin`: makes topics, by the controller's rules;
    - `config_admin`: changes settings while the broker runs;
    - `client_quotas`: who may use how much;
    - `client_metrics`: the metrics that clients push, where there is a receiver for them;
    - `loggers`: what is logged;
    - `fetch_sessions`: what clients fetch;
    - `replica_manager`: partitions: append, fetch, offsets;
    - `group_coordinator`: groups and their committed offsets;
    - `share_coordinator`: the states of share-partitions; `share_partition_manager`: those that are led here;
    - `transaction_coordinator`: transactional ids and their transactions;
    - `producer_id_manager`: ids for producers;
    - `purgatory`: requests that wait; `large_responses`: those whose response is made a piece at a time;
    - `response_room`: how many bytes those may hold;
    - `view`: the brokers of the cluster and who has which partition, as clients are told;
    - `member`: the membership in a cluster with controllers of its own; None for a broker that is alone;
    - `authorization`: who may do what, where that is asked;
    - `delegation_tokens`: credentials that users have made for programs that act for them;
    - `streams_internal_topics`: makes topics of Kafka Streams applications;
    - `random`: the injected source of randomness, for ids of members, topics and sessions;
    - `advertised`: listener name → (host, port) as told to clients;
    - `unsent_bytes`: of responses that clients are too slow to take.
    """

    __slots__ = (
        "_add_partitions_to_txn_manager",
        "_config_admin",
        "_group_coordinator",
        "_producer_id_manager",
        "_share_coordinator",
        "_share_partition_manager",
        "_streams_internal_topics",
        "_transaction_coordinator",
        "advertised",
        "authorization",
        "client_metrics",
        "client_quotas",
        "config",
        "delegation_tokens",
        "fetch_sessions",
        "large_responses",
        "loggers",
        "make_config_admin",
        "make_group_coordinator",
        "make_share_coordinator",
        "make_share_partition_manager",
        "make_transaction_coordinator",
        "member",
        "metadata",
        "node_id",
        "purgatory",
        "rack",
        "random",
        "replica_manager",
        "response_room",
        "topic_admin",
        "unsent_bytes",
        "view",
    )

    config: BrokerConfig
    metadata: ClusterMetadata
    replica_manager: ReplicaManager
    topic_admin: TopicAdmin
    client_quotas: ClientQuotas
    delegation_tokens: DelegationTokens
    loggers: Loggers
    make_config_admin: Callable[[], ConfigAdmin]
    make_group_coordinator: Callable[[], GroupCoordinator]
    make_share_coordinator: Callable[[], ShareCoordinator]
    make_share_partition_manager: Callable[[], SharePartitionManager]
    make_transaction_coordinator: Callable[[], TransactionCoordinator]
    node_id: int
    view: ClusterView

    def __init__(self, config: BrokerConfig, random: random.Random):
        self.config = config
        self.node_id = config.node_id
        self.random = random
        self.rack: str | None = config["broker.rack"]
        self.purgatory = Purgatory()
        self.large_responses = PiecewiseResponses()
        self.response_room = ResponseRoom(lambda: self.unsent_bytes)
        self.fetch_sessions = FetchSessionCache(config.get_int("max.incremental.fetch.session.cache.slots"), random)
        self._config_admin: ConfigAdmin | None = None
        self._group_coordinator: GroupCoordinator | None = None
        self._share_coordinator: ShareCoordinator | None = None
        self._share_partition_manager: SharePartitionManager | None = None
        self._transaction_coordinator: TransactionCoordinator | None = None
        self._add_partitions_to_txn_manager: AddPartitionsToTxnManager | None = None
        self._producer_id_manager: ProducerIdManager | None = None
        self.advertised: dict[str, tuple[str, int]] = {}
        self.unsent_bytes = 0
        self.client_metrics: ClientMetricsManager | None = None
        self.member: MemberPort | None = None
        self._streams_internal_topics: StreamsInternalTopics | None = None
        self.authorization: Authorization | None = None

    @property
    def config_admin(self) -> ConfigAdmin:
        """What changes settings, made when it is first asked for."""
        if self._config_admin is None:
            self._config_admin = self.make_config_admin()
        return self._config_admin

    @property
    def group_coordinator(self) -> GroupCoordinator:
        """The group coordinator, made when it is first asked for."""
        if self._group_coordinator is None:
            self._group_coordinator = self.make_group_coordinator()
        return self._group_coordinator

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The share coordinator, made when it is first asked for."""
        if self._share_coordinator is None:
            self._share_coordinator = self.make_share_coordinator()
        return self._share_coordinator

    @property
    def share_partition_manager(self) -> SharePartitionManager:
        """The share-partitions that are led here, made when it is first asked for."""
        if self._share_partition_manager is None:
            self._share_partition_manager = self.make_share_partition_manager()
        return self._share_partition_manager

    @property
    def streams_internal_topics(self) -> StreamsInternalTopics:
        """What makes topics of Kafka Streams applications, made when it is first asked for."""
        if self._streams_internal_topics is None:
            from barnabas.broker.streams_internal_topics import StreamsInternalTopics

            self._streams_internal_topics = StreamsInternalTopics(self.purgatory, self.large_responses)
        return self._streams_internal_topics

    @property
    def transaction_coordinator(self) -> TransactionCoordinator:
        """The transaction coordinator, made when it is first asked for."""
        if self._transaction_coordinator is None:
            self._transaction_coordinator = self.make_transaction_coordinator()
        return self._transaction_coordinator

    @property
    def producer_id_manager(self) -> ProducerIdManager:
        """What gives producer ids, made when it is first asked for."""
        if self._producer_id_manager is None:
            from barnabas.broker.transactions.producer_id_manager import ProducerIdManager

            self._producer_id_manager = ProducerIdManager(
                self.metadata if self.member is None else self.member.producer_ids
            )
        return self._producer_id_manager

    @property
    def add_partitions_to_txn_manager(self) -> AddPartitionsToTxnManager:
        """What transactional records have to pass on their way to a partition."""
        if self._add_partitions_to_txn_manager is None:
            from barnabas.broker.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
            from barnabas.broker.transactions.verification import LocalVerification, Verification

            verification: Verification
            if self.member is None:
                verification = LocalVerification(self.transaction_coordinator, self.replica_manager)
            else:
                verification = self.member.verification
            self._add_partitions_to_txn_manager = AddPartitionsToTxnManager(verification, self.config)
        return self._add_partitions_to_txn_manager

    def commit(
        self, change: Callable[[Done], None], answer: Callable[[KafkaError | None], Response]
    ) -> Response | DelayedOperation:
        """Answer a request when the change of the metadata that it asks for is durable, or has failed.

        `change(done)` begins the change, see `ClusterMetadata`; `answer(problem)` makes the response then.
        """
        operation = DelayedOperation()
        responses: list[Response] = []

        def finish(problem: KafkaError | None) -> None:
            try:
                responses.append(answer(problem))
            except Exception as fault:  # noqa: BLE001 - given to who waits for the response
                operation.fail(fault)
                return
            operation.complete(responses[0])

        change(finish)
        return responses[0] if responses else operation

    def in_turn(self, handle: Callable[[], Response | DelayedOperation]) -> Response | DelayedOperation:
        """Handle a request that changes the metadata when no other change is in flight: it plans on what there is."""
        if not self.metadata.is_committing:
            return handle()
        operation = DelayedOperation()

        def go_on() -> None:
            if operation.done:
                # Its client is gone.
                return
            try:
                result = handle()
            except Exception as problem:  # noqa: BLE001 - given to who waits for the response
                operation.fail(problem)
                return
            if isinstance(result, DelayedOperation):
                self.purgatory.park(result, operation.complete, operation.fail)
            else:
                operation.complete(result)

        self.metadata.when_committed(go_on)
        return operation

    @property
    def cluster_id(self) -> str:
        """The cluster's id: 22 characters, base64 of a uuid."""
        return self.metadata.cluster_id

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return what the principal may do to a resource (KIP-430): everything, without an authorizer."""
        if self.authorization is None:
            return AUTHORIZED_OPERATIONS[resource_type]
        return self.authorization.authorized_operations(context, resource_type, name)

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Host and port told to clients that came in through `listener`."""
        return self.advertised[listener]
