"""What the Sender thread does: takes batches from the accumulator to the brokers, and their results back."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.producer.in_flight_batches import InFlightBatches
from barnabas.client.producer.partition_response import PartitionResponse, error_of_request, errors_of_batch, parse
from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.client.producer.producer_id_request import ProducerIdRequest
from barnabas.client.producer.refusing_brokers import RefusingBrokers
from barnabas.client.producer.sender_config import SenderConfig
from barnabas.client.producer.transactions.request_sender import TransactionalRequestSender
from barnabas.errors import (
    DuplicateSequenceError,
    FencedLeaderEpochError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    NotLeaderOrFollowerError,
    RecordTooLargeError,
)
from barnabas.network.client_request import ClientResponse, RequestBuilder
from barnabas.network.log_context import client_logger
from barnabas.network.node import Node
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.thresholds import PRODUCE_TOPIC_IDS_FROM
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.producer.producer_metrics import ProducerMetrics
    from barnabas.client.producer.record_accumulator import RecordAccumulator
    from barnabas.client.producer.transactions.idempotence import IdempotenceManager
    from barnabas.client.producer.transactions.transaction_manager import TransactionManager
    from barnabas.client.producer.transactions.txn_partition_map import BatchNumbering
    from barnabas.client.producer_metadata import ProducerMetadata
    from barnabas.network.network_client import NetworkClient

log = client_logger("barnabas.producer")

# Below this version topics go by name, from it on by id (KIP-516).
# From the next version on a partition's leader adds it to the transaction by itself (KIP-890).
LAST_VERSION_OF_TRANSACTIONS_V1 = 11


class Guarantees(NamedTuple):
    """What keeps records from being stored twice or in another order: at most one of the two, or neither."""

    idempotence: IdempotenceManager | None = None
    transactions: TransactionManager | None = None

    @property
    def numbering(self) -> BatchNumbering | None:
        """What numbers the batches."""
        return self.transactions or self.idempotence


class Sender:
    """Owns every batch from the moment it is drained; all its methods but `wakeup` belong to one thread.

    `run_once(now)` is one turn: a request for a producer id if there is none, else one ProduceRequest to each node that
    is ready and has data, then `NetworkClient.poll`, in which the answers are handled.
    """

    def __init__(
        self,
        client: NetworkClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        config: SenderConfig,
        metrics: ProducerMetrics,
        guarantees: Guarantees | None = None,
    ) -> None:
        idempotence, transactions = guarantees or Guarantees()
        self.transactions = transactions
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._config = config
        self._metrics = metrics
        self._numbering = guarantees.numbering if guarantees else None
        if self._numbering is not None:
            self._numbering.sequences.connection_number = client.connection_number
        self._transactional: TransactionalRequestSender | None = None
        if transactions is not None:
            self._transactional = TransactionalRequestSender(
                client, metadata, accumulator, transactions, config.request_timeout
            )
        self._in_flight = InFlightBatches(accumulator.delivery_timeout)
        self._refusing = RefusingBrokers(client, accumulator, self._in_flight, transactions)
        self._producer_id: ProducerIdRequest | None = None
        if idempotence is not None:
            self._producer_id = ProducerIdRequest(client, metadata, accumulator, idempotence, self._refusing, config)

    def run_once(self, now: float) -> None:
        """One turn at time `now`; returns when something happened or is due.

        After an unexpected error, which is raised, no batch is left without a result that nothing would bring.
        """
        try:
            self._turn(now)
        except BaseException as error:
            self._fail_lost_batches(error, now)
            raise

    def _turn(self, now: float) -> None:
        numbering = self._numbering
        if numbering is not None:
            numbering.maybe_resolve_sequences()
            if numbering.has_fatal_error:
                self._accumulator.abort_batches(numbering.last_error or KafkaError("The producer has failed"))
                self._client.poll(self._config.retry_backoff, now)
                return
        if self._transactional is not None:
            self._client.poll(min(self._transactional.tick(now), self.send_producer_data(now)), now)
        elif self._producer_id is None or self._producer_id.tick(now):
            self._client.poll(self.send_producer_data(now), now)
        else:
            self._expire_batches(now)
            self._client.poll(self._config.retry_backoff, now)

    def has_work(self) -> bool:
        """Whether any record waits to be sent or acknowledged; other requests need no answer any more."""
        return self._accumulator.has_incomplete()

    def wakeup(self) -> None:
        """End the turn in progress early; from any thread."""
        self._client.wakeup()

    def is_ending_transaction(self) -> bool:
        """Begin to abort a transaction that was not committed, so that no reader waits until the broker's time is over.

        Tells whether one is open still.
        """
        manager = self.transactions
        if manager is None or not manager.states.has_ongoing_transaction:
            return False
        if not manager.is_completing:
            log.info("Aborting the open transaction, as the producer is closed")
            manager.abort_on_close()
        return True

    def shut_down(self) -> None:
        """Take no more records, fail all that have no result, and close all connections."""
        try:
            self._fail_what_is_left()
        finally:
            self._client.close()

    def _fail_what_is_left(self) -> None:
        self._accumulator.close()
        if self.transactions is not None:
            self.transactions.fail_waiting(KafkaError("The producer was closed before this was done"))
        lost = self._accumulator.abort_incomplete_batches(
            KafkaError(
                "The producer was closed before the record was acknowledged; it may or may not be stored. "
                "close() without a timeout waits for all records"
            )
        )
        if lost:
            log.warning("%s: closed with %d records not acknowledged, each has failed", self._client.client_id, lost)

    # Sending

    def send_producer_data(self, now: float) -> float:
        """Send what is ready; returns how many seconds `poll` may wait."""
        accumulator = self._accumulator
        if not accumulator.has_undrained():
            # Most turns bring answers and have nothing to send: who waits for an answer waits for this turn's end.
            self._expire_batches(now)
            return max(0.0, self._in_flight.next_expiry - now)
        cluster = self._metadata.fetch()
        result = accumulator.ready(cluster, now)
        if result.unknown_leader_topics:
            # Their metadata may have expired, or an election is in progress.
            for topic in result.unknown_leader_topics:
                self._metadata.add(topic, now)
            self._metadata.request_update()
        not_ready_timeout = self._remove_unready_nodes(result.ready_nodes, cluster, now)
        batches = accumulator.drain(cluster, result.ready_nodes.values(), self._config.max_request_size, now)
        unsent = dict(batches)
        try:
            self._note_in_flight(batches, now)
            self._expire_batches(now)
            for node_id, node_batches in batches.items():
                if node_batches:
                    self._send_produce_request(node_id, node_batches, cluster, now)
                del unsent[node_id]
        except BaseException:
            self._not_in_flight(unsent.values())
            raise
        if result.ready_nodes and accumulator.has_undrained():
            return 0.0
        until_expiry = min(accumulator.next_expiry, self._in_flight.next_expiry) - now
        return max(0.0, min(result.next_ready_check_delay, not_ready_timeout, until_expiry))

    def _remove_unready_nodes(self, ready_nodes: dict[int, Node], cluster: Cluster, now: float) -> float:
        timeout = inf
        for node in list(ready_nodes.values()):
            can_drain = self._client.is_ready(node, now)
            if not can_drain:
                self._refusing.fail_waiting(node, cluster, now)
                can_drain = self._client.ready(node, now)
            self._accumulator.update_node_latency_stats(node.id, now, can_drain)
            if not can_drain:
                del ready_nodes[node.id]
                timeout = min(timeout, self._client.poll_delay(node, now))
        return timeout

    def _note_in_flight(self, batches: dict[int, list[ProducerBatch]], now: float) -> None:
        topics = set()
        for node_batches in batches.values():
            for batch in node_batches:
                tp = batch.topic_partition
                self._in_flight.add(batch)
                topics.add(tp.topic)
                if self._config.guarantee_message_order:
                    self._accumulator.mute_partition(tp)
        for topic in topics:
            self._metadata.add(topic, now)

    def _send_produce_request(self, node_id: int, batches: list[ProducerBatch], cluster: Cluster, now: float) -> None:
        by_topic: dict[str, list[PartitionProduceData]] = {}
        by_partition: dict[TopicPartition, ProducerBatch] = {}
        for batch in batches:
            tp = batch.topic_partition
            data = PartitionProduceData(index=tp.partition, records=batch.records())
            by_topic.setdefault(tp.topic, []).append(data)
            by_partition[tp] = batch
        ids = {topic: cluster.topic_id(topic) or ZERO_UUID for topic in by_topic}
        transactions = self.transactions
        transactional_id = None if transactions is None else transactions.transactional_id

        def build(version: int) -> ProduceRequest:
            return ProduceRequest(
                transactional_id=transactional_id,
                acks=self._config.acks,
                timeout_ms=int(self._config.request_timeout * 1000),
                topic_data=[
                    TopicProduceData(name=topic, topic_id=ids[topic], partition_data=data)
                    for topic, data in by_topic.items()
                ],
            )

        low, high = ProduceRequest.VALID_VERSIONS
        if ZERO_UUID in ids.values():
            high = min(high, PRODUCE_TOPIC_IDS_FROM - 1)
        if self._transactional is not None and not self._transactional.is_v2:
            high = LAST_VERSION_OF_TRANSACTIONS_V1
        request = self._client.new_client_request(
            node_id,
            RequestBuilder(ProduceRequest.API_KEY, build, low, high),
            now,
            expect_response=self._config.acks != 0,
            timeout=self._config.request_timeout,
            callback=lambda response: self._handle_produce_response(response, by_partition, ids),
        )
        self._metrics.record_request(batches, now)
        self._client.send(request, now)

    # Unexpected errors

    def _not_in_flight(self, batches: Iterable[list[ProducerBatch]]) -> None:
        for node_batches in batches:
            for batch in node_batches:
                self._in_flight.remove(batch)

    def _fail_lost_batches(self, cause: BaseException, now: float) -> None:
        """End the batches that are neither in the accumulator nor in flight: no answer will come for them."""
        for batch in self._accumulator.lost_batches(self._in_flight):
            if batch.is_done:
                batch.request_result.complete()
                self._release(batch)
            else:
                error = KafkaError(
                    f"Sending to {batch.topic_partition} ended in an unexpected error, so it is not known whether the "
                    f"record is stored: {cause!r}"
                )
                error.__cause__ = cause
                self._fail_unresolved(batch, error, now)
            if self._config.guarantee_message_order:
                self._accumulator.unmute_partition(batch.topic_partition)

    def _fail_unresolved(self, batch: ProducerBatch, error: KafkaError, now: float) -> None:
        """Fail a batch of which nothing tells whether the broker stored it."""
        was_sent = batch.in_retry or batch.has_sequence
        self._fail(batch, error, None, False, now)
        if self._numbering is not None and was_sent:
            self._numbering.sequences.mark_unresolved(batch)

    # Results

    def _handle_produce_response(
        self, response: ClientResponse, batches: dict[TopicPartition, ProducerBatch], ids: dict[str, bytes]
    ) -> None:
        try:
            self._complete_batches(response, batches, ids)
        except BaseException as error:
            # The request is answered: what it did not complete is not in flight any more.
            self._not_in_flight([list(batches.values())])
            self._fail_lost_batches(error, response.received_at)
            raise

    def _complete_batches(
        self, response: ClientResponse, batches: dict[TopicPartition, ProducerBatch], ids: dict[str, bytes]
    ) -> None:
        now = response.received_at
        if response.message is None:
            # No answer: the request failed as a whole, or none was asked for (acks=0) and it was sent.
            for batch in batches.values():
                self._complete_batch(batch, PartitionResponse(error_of_request(response)), now)
            return
        self._metrics.record_latency(response.latency, response.message.throttle_time_ms, now)
        topics = {topic_id: topic for topic, topic_id in ids.items()}
        new_leaders: dict[TopicPartition, tuple[int, int]] = {}
        waiting: dict[Any, ProducerBatch] = dict(batches)
        for topic_response in response.message.responses:
            topic = topic_response.name or topics.get(topic_response.topic_id, "")
            for data in topic_response.partition_responses:
                # A plain pair finds what a TopicPartition does, and costs less to make.
                answered = waiting.pop((topic, data.index), None)
                if answered is not None:
                    parsed = parse(data)
                    self._complete_batch(answered, parsed, now)
                    if parsed.error is not None:
                        self._note_new_leader(answered.topic_partition, parsed, new_leaders)
        for batch in waiting.values():
            error = NetworkError(f"The broker answered the request without a word on {batch.topic_partition}")
            self._complete_batch(batch, PartitionResponse(error), now)
        if new_leaders:
            nodes = [Node(node.node_id, node.host, node.port, node.rack) for node in response.message.node_endpoints]
            self._metadata.update_partition_leadership(new_leaders, nodes)

    def _note_new_leader(
        self, tp: TopicPartition, response: PartitionResponse, new_leaders: dict[TopicPartition, tuple[int, int]]
    ) -> None:
        moved = isinstance(response.error, NotLeaderOrFollowerError | FencedLeaderEpochError)
        if moved and response.leader_id != -1 and response.leader_epoch != -1:
            new_leaders[tp] = (response.leader_id, response.leader_epoch)

    def _complete_batch(self, batch: ProducerBatch, response: PartitionResponse, now: float) -> None:
        error = response.error
        if error is None or isinstance(error, DuplicateSequenceError):
            # A duplicate was stored before, only its offset is forgotten.
            self._succeed(batch, response)
        elif isinstance(error, RecordTooLargeError) and batch.record_count > 1 and not batch.is_done:
            self._split(batch, now)
        elif self._can_retry(batch, response, now):
            log.warning(
                "%s on %s, trying again (%d attempts left): %s",
                error.name,
                batch.topic_partition,
                self._config.retries - batch.attempts - 1,
                error,
            )
            batch.last_error = error
            self._accumulator.reenqueue(batch, now)
            self._in_flight.remove(batch)
            self._metrics.record_retry(batch, now)
        else:
            # After the last attempt it is not known whether the broker stored an earlier one, so its numbers stay.
            adjust = batch.attempts < self._config.retries
            self._fail(batch, *errors_of_batch(batch, response), adjust, now)
        if error is not None and error.refresh_metadata:
            log.info("Fetching metadata anew: %s on %s", error.name, batch.topic_partition)
            self._metadata.request_update()
        if self._config.guarantee_message_order:
            self._accumulator.unmute_partition(batch.topic_partition)

    def _can_retry(self, batch: ProducerBatch, response: PartitionResponse, now: float) -> bool:
        error = response.error
        if (
            error is None
            or batch.is_done
            or batch.attempts >= self._config.retries
            or batch.has_reached_delivery_timeout(self._accumulator.delivery_timeout, now)
        ):
            return False
        if self._numbering is not None:
            return self._numbering.can_retry(batch, error, response.log_start_offset)
        return error.retriable

    def _succeed(self, batch: ProducerBatch, response: PartitionResponse) -> None:
        if self._numbering is not None:
            self._numbering.sequences.handle_completed_batch(batch, response.base_offset)
        if batch.is_done or batch.complete(response.base_offset, response.log_append_time):
            self._release(batch)

    def _split(self, batch: ProducerBatch, now: float) -> None:
        log.warning(
            "A batch of %d records for %s is too large for the broker, splitting it",
            batch.record_count,
            batch.topic_partition,
        )
        if self._numbering is not None:
            self._numbering.sequences.remove_in_flight_batch(batch)
        self._accumulator.split_and_reenqueue(batch)
        self._release(batch)
        self._metrics.record_split(now)

    def _fail(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: dict[int, KafkaError] | None,
        adjust: bool,
        now: float,
    ) -> None:
        if batch.complete_exceptionally(error, record_errors):
            self._metrics.record_failure(batch, now)
            if self._numbering is not None:
                self._numbering.handle_failed_batch(batch, error, adjust)
        self._release(batch)

    def _release(self, batch: ProducerBatch) -> None:
        self._in_flight.remove(batch)
        self._accumulator.deallocate(batch)

    # Expiry

    def _expire_batches(self, now: float) -> None:
        expired = self._accumulator.expired_batches(now) + self._in_flight.expired(now)
        for batch in expired:
            error = KafkaTimeoutError(
                f"{batch.record_count} record(s) for {batch.topic_partition} expired: "
                f"{(now - batch.created_at) * 1000:.0f} ms have passed since the batch was created, and "
                f"delivery.timeout.ms allows no more. {_last_said(batch)}"
            )
            error.__cause__ = batch.last_error
            self._fail_unresolved(batch, error, now)


def _last_said(batch: ProducerBatch) -> str:
    if batch.last_error is None:
        return "Whether the broker is reachable is in the log of barnabas.network"
    return f"The last attempt failed with {batch.last_error.name}: {batch.last_error}"
