"""Transactions and the producers that write them (KIP-664, KIP-360, KIP-939)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.admin_api_handler import Lookup, Outcome, StaticLookup
from barnabas.client.admin.lookups import CoordinatorStrategy, PartitionLeaderStrategy
from barnabas.client.admin.partition_offsets import by_topic
from barnabas.client.admin.requests import Answer, KeyedRequest, from_each_broker, one_key_each, partitions_of
from barnabas.errors import ConcurrentTransactionsError, UnknownTopicOrPartitionError
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions_request import ListTransactionsRequest
from barnabas.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.producer_identity import ProducerIdAndEpoch
from barnabas.protocol.protocol_enum import NamedEnum
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.describe_producers_response import DescribeProducersResponse
    from barnabas.protocol.messages.describe_producers_response import ProducerState as ActiveProducer
    from barnabas.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
    from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse
    from barnabas.protocol.messages.list_transactions_response import ListTransactionsResponse
    from barnabas.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

_FIRST_LIST_WITH_DURATION = 1
_FIRST_LIST_WITH_PATTERN = 2


class ProducerState(NamedTuple):
    """A producer that has written to a partition; times are epoch milliseconds, -1 stands for none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class TransactionState(NamedEnum):
    """How far a transaction is, with the names of the protocol."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class TransactionDescription(NamedTuple):
    """What the coordinator knows of a transactional id; `start_time_ms` is epoch milliseconds, -1 outside of one."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    topic_partitions: frozenset[TopicPartition]


class TransactionListing(NamedTuple):
    """A transactional id in a list, and the broker that listed it."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator_id: int


class AbortTransactionSpec(NamedTuple):
    """A transaction that hangs in a partition, as `describe_producers` shows it."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def describe_producers(broker_id: int | None) -> KeyedRequest[TopicPartition, list[ProducerState]]:
    """DescribeProducers, at the leaders, or at the broker that is given."""

    def build(keys: list[TopicPartition], timeout_ms: int) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=[key.partition for key in partitions])
                for topic, partitions in by_topic(keys)
            ]
        )

    def answers(
        keys: list[TopicPartition], response: DescribeProducersResponse
    ) -> Iterable[Answer[TopicPartition, list[ProducerState]]]:
        for key, partition in partitions_of(response.topics):
            producers = [_producer(state) for state in partition.active_producers]
            yield key, partition.error_code, partition.error_message, producers

    lookup: Lookup[TopicPartition] = (
        PartitionLeaderStrategy() if broker_id is None else StaticLookup(lambda _: broker_id)
    )
    return KeyedRequest("describe_producers", lookup, build, answers)


def _producer(state: ActiveProducer) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_txn_start_offset,
    )


class DescribeTransactionsHandler:
    """DescribeTransactions, at the coordinators."""

    name = "describe_transactions"

    def __init__(self) -> None:
        self.lookup = CoordinatorStrategy(CoordinatorType.TRANSACTION)

    def build_request(self, keys: list[str], timeout_ms: int) -> DescribeTransactionsRequest:
        """See `AdminApiHandler`."""
        return DescribeTransactionsRequest(transactional_ids=keys)

    def handle_response(
        self, keys: list[str], response: DescribeTransactionsResponse, outcome: Outcome[str, TransactionDescription]
    ) -> None:
        """See `AdminApiHandler`."""
        for found in response.transaction_states:
            if outcome.is_success(found.transactional_id, found.error_code):
                description = TransactionDescription(
                    outcome.broker.id,
                    TransactionState(found.transaction_state),
                    found.producer_id,
                    found.producer_epoch,
                    found.transaction_timeout_ms,
                    found.transaction_start_time_ms,
                    frozenset(TopicPartition(t.topic, number) for t in found.topics for number in t.partitions),
                )
                outcome.complete(found.transactional_id, description)


def list_transactions(
    states: Collection[str], producer_ids: Collection[int], longer_than_ms: int, pattern: str | None
) -> KeyedRequest[int, list[TransactionListing]]:
    """ListTransactions, from every broker: each knows the ids it coordinates."""
    message = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    low, high = stable_versions(ApiKey.LIST_TRANSACTIONS)
    low = low if longer_than_ms < 0 else _FIRST_LIST_WITH_DURATION
    low = low if pattern is None else _FIRST_LIST_WITH_PATTERN

    def read(broker_id: int, response: ListTransactionsResponse) -> list[TransactionListing]:
        return [
            TransactionListing(t.transactional_id, t.producer_id, TransactionState(t.transaction_state), broker_id)
            for t in response.transaction_states
        ]

    return from_each_broker(
        "list_transactions", lambda: RequestBuilder(ApiKey.LIST_TRANSACTIONS, lambda _: message, low, high), read
    )


def abort_transaction(spec: AbortTransactionSpec) -> KeyedRequest[TopicPartition, None]:
    """WriteTxnMarkers for one partition, at its leader."""

    def build(keys: list[TopicPartition], timeout_ms: int) -> WriteTxnMarkersRequest:
        topic = WritableTxnMarkerTopic(
            name=spec.topic_partition.topic, partition_indexes=[spec.topic_partition.partition]
        )
        marker = WritableTxnMarker(
            producer_id=spec.producer_id,
            producer_epoch=spec.producer_epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=spec.coordinator_epoch,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def answers(
        keys: list[TopicPartition], response: WriteTxnMarkersResponse
    ) -> Iterable[Answer[TopicPartition, None]]:
        for marker in response.markers:
            for key, partition in partitions_of(marker.topics):
                yield key, partition.error_code, None, None

    return KeyedRequest(
        "abort_transaction",
        PartitionLeaderStrategy(),
        build,
        answers,
        also_passing=(UnknownTopicOrPartitionError.code,),
    )


def fence_producers(operation: str) -> KeyedRequest[str, ProducerIdAndEpoch]:
    """InitProducerId, at the coordinators, on behalf of no producer: it ends what is open and fences who began it."""

    def build(keys: list[str], timeout_ms: int) -> RequestBuilder:
        def request(key: str) -> InitProducerIdRequest:
            # For the coordinator it is the time-out of the id's next transaction; Kafka's admin client says the same.
            return InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=timeout_ms)

        return one_key_each(ApiKey.INIT_PRODUCER_ID, "InitProducerId", request, keys)

    def answers(keys: list[str], response: InitProducerIdResponse) -> Iterable[Answer[str, ProducerIdAndEpoch]]:
        yield keys[0], 0, None, ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    return KeyedRequest(
        operation,
        CoordinatorStrategy(CoordinatorType.TRANSACTION),
        build,
        answers,
        also_passing=(ConcurrentTransactionsError.code,),
    )
