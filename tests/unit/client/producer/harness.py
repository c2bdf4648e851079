"""A producer without threads and sockets: Sender, NetworkClient and metadata on virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.client.client_utils import create_network_client
from barnabas.client.metadata import MetadataRefresh
from barnabas.client.producer.accumulator_settings import AccumulatorSettings
from barnabas.client.producer.append import FutureRecordMetadata, record_size_upper_bound
from barnabas.client.producer.append_results import RecordAppendResult
from barnabas.client.producer.buffer_pool import BufferPool
from barnabas.client.producer.producer_config import IN_FLIGHT, ProducerConfig
from barnabas.client.producer.producer_metrics import ProducerMetrics
from barnabas.client.producer.producer_parts import new_builder
from barnabas.client.producer.record_accumulator import RecordAccumulator
from barnabas.client.producer.sender import Guarantees, Sender
from barnabas.client.producer.slow_append import EncodedRecord
from barnabas.client.producer.transactions.idempotence import IdempotenceManager
from barnabas.client.producer.transactions.transaction_manager import TransactionManager
from barnabas.client.producer_metadata import ProducerMetadata
from barnabas.client.steps import run
from barnabas.network.exponential_backoff import ExponentialBackoff
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from barnabas.records.batch_header import HEADER_SIZE
from tests.support.network_fakes import FakeSelector, all_api_versions, metadata_response

TOPIC = "t"
T0, T1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class StillSelector(FakeSelector):
    """Waiting takes no time: only tests move it."""

    def poll(self, timeout: float, now: float) -> float:
        super().poll(0.0, now)
        return now


class Harness:
    """Time stands still until a test moves it; node n listens at port n and leads every partition unless told."""

    def __init__(
        self,
        *,
        partitions: int = 2,
        nodes: int = 1,
        leaders: Callable[[int], int] = lambda partition: 1,
        **settings: Any,
    ) -> None:
        settings = {"linger_ms": 0, "bootstrap_servers": "h:1", "retry_backoff_max_ms": 100, **settings}
        self.config = config = ProducerConfig(None, settings)
        self.now = 1000.0
        self.rng = random.Random(7)
        self.selector = StillSelector()
        self.producer_ids = 0
        self.selector.handlers = {
            ApiKey.API_VERSIONS: lambda _: all_api_versions(),
            ApiKey.METADATA: lambda _: self.metadata_answer(),
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
        }
        self.partitions, self.nodes, self.leaders = partitions, nodes, leaders
        self.leader_epoch = 0
        self.metadata = ProducerMetadata(
            MetadataRefresh(backoff=0.1, backoff_max=0.1, max_age=300, random=self.rng), max_idle=300
        )
        self.client = create_network_client(
            config, "harness", self.metadata, selector=self.selector, random=self.rng,
            max_in_flight_requests_per_connection=config.get_int(IN_FLIGHT),
        )  # fmt: skip
        self.metrics = ProducerMetrics(lambda: self.now)
        self.manager: Any = self._make_manager()
        codec, level = config.compression()
        self.pool = BufferPool(config.get_int("buffer.memory"), lambda: self.now)
        settings = AccumulatorSettings(
            batch_size=config.get_int("batch.size"),
            linger=config.get_seconds("linger.ms"),
            delivery_timeout=config.delivery_timeout,
            retry_backoff=ExponentialBackoff(0.1, config.get_seconds("retry.backoff.max.ms"), self.rng),
            compresses=codec != "none",
        )
        self.accumulator = RecordAccumulator(
            settings,
            self.pool,
            partial(new_builder, codec, level),
            clock=lambda: self.now,
            rng=self.rng,
            numbering=self.manager,
        )
        guarantees = Guarantees(idempotence=self.manager)
        if config.transactional_id is not None:
            guarantees = Guarantees(transactions=self.manager)
            self.manager.states.refuse_records_by(self.accumulator.refuse)
        self.sender = Sender(
            self.client, self.metadata, self.accumulator, config.sender_config(), self.metrics, guarantees
        )
        self.metadata.add(TOPIC, self.now)
        self.metadata.update(self.metadata_answer(), self.now)

    def _make_manager(self) -> Any:
        config = self.config
        if config.transactional_id is None:
            return IdempotenceManager() if config.idempotent else None
        return TransactionManager(
            config.transactional_id,
            config.get_int("transaction.timeout.ms"),
            ExponentialBackoff(0.1, 0.1, self.rng),
            self.client.api_versions,
            config.get_bool("transaction.two.phase.commit.enable"),
        )

    def metadata_answer(self) -> Any:
        answer = metadata_response([(n, "h", n) for n in range(1, self.nodes + 1)], {TOPIC: self.partitions})
        for partition in answer.topics[0].partitions:
            partition.leader_id = self.leaders(partition.partition_index)
            partition.leader_epoch = self.leader_epoch
        return answer

    def _init_producer_id(self, _: Any) -> InitProducerIdResponse:
        self.producer_ids += 1
        return InitProducerIdResponse(producer_id=100 + self.producer_ids, producer_epoch=0)

    @property
    def cluster(self) -> Any:
        return self.metadata.fetch()

    def append(
        self, value: bytes | None = b"v", partition: int = 0, key: bytes | None = None, on_delivery: Any = None,
        timestamp: int = 1, abort_on_new_batch: bool = False,
    ) -> RecordAppendResult:  # fmt: skip
        size = record_size_upper_bound(key, value) - HEADER_SIZE
        record = EncodedRecord(timestamp, key, value, (), on_delivery, size)
        memory = None
        while True:
            result = self.accumulator.append_nowait(
                TOPIC, partition, record, self.cluster, abort_on_new_batch=abort_on_new_batch, memory=memory
            )
            if not result.memory_needed:
                return result
            memory = run(self.pool.wait_allocate(result.memory_needed, 0.0))

    def send(self, value: bytes | None = b"v", partition: int = 0, **more: Any) -> FutureRecordMetadata:
        future = self.append(value, partition, **more).future
        assert future is not None
        return future

    def turn(self, seconds: float = 0.0, times: int = 1) -> None:
        """Let time pass, then one turn of the Sender (or more)."""
        self.now += seconds
        for _ in range(times):
            self.sender.run_once(self.now)

    def settle(self) -> None:
        """Connections made, producer id there, what is ready sent; no time passes."""
        self.turn(times=12)

    def waiting(self, node: int = 1) -> list[Any]:
        """The ProduceRequests that the node has not answered, oldest first."""
        return [message for _, message in self.selector.waiting.get(node, ()) if message.NAME == "ProduceRequest"]

    def sent_values(self, node: int = 1) -> list[list[bytes | None]]:
        """The values of each batch in the requests that wait."""
        return [
            [record.value for record in batch]
            for request in self.waiting(node)
            for topic in request.topic_data
            for data in topic.partition_data
            for batch in read_batches(data.records)
        ]

    def batches(self, node: int = 1) -> list[Any]:
        """The record batches in the requests that wait."""
        return [
            batch
            for request in self.waiting(node)
            for topic in request.topic_data
            for data in topic.partition_data
            for batch in read_batches(data.records)
        ]

    def respond(self, error: int = 0, *, node: int = 1, base_offset: int = 0, **more: Any) -> None:
        """Answer the oldest request of a node, all its partitions alike, and let the Sender handle that."""
        request = self.waiting(node)[0]
        self.selector.respond(node, produce_response(request, error, base_offset, **more))
        self.turn()


def produce_response(request: Any, error: int = 0, base_offset: int = 0, **more: Any) -> ProduceResponse:
    """The answer to a request, all its partitions alike."""
    record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
        for index, message in more.get("record_errors", ())
    ]
    leader, epoch = more.get("leader", (-1, -1))
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=error,
                        base_offset=-1 if error else base_offset,
                        log_append_time_ms=more.get("log_append_time", -1),
                        log_start_offset=more.get("log_start_offset", 0),
                        record_errors=record_errors,
                        error_message=more.get("message"),
                        current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
        node_endpoints=[NodeEndpoint(node_id=n, host="h", port=n) for n in more.get("endpoints", ())],
    )
