"""Transactions through the protocol: producers, readers of committed records, groups, administrators."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions_request import ListTransactionsRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce
from tests.unit.broker.transactions.wire import (
    READ_UNCOMMITTED,
    WireProducer,
    committed,
    latest,
    read,
    transactional_batch,
)

BOTH = pytest.mark.parametrize("second", [False, True], ids=["first protocol", "second protocol"])


@pytest.fixture
def client() -> CoreClient:
    client = CoreBroker().connect()
    client.request(create("t", 2), 7)
    return client


@pytest.fixture
def producer(client: CoreClient) -> WireProducer:
    producer = WireProducer(client)
    assert producer.init() == 0
    return producer


def of_protocol(client: CoreClient, second: bool, transactional_id: str = "tx") -> WireProducer:
    producer = WireProducer(client, transactional_id, second=second)
    assert producer.init() == 0
    return producer


def begin(producer: WireProducer, *partitions: tuple[str, int]) -> None:
    if not producer.second:
        assert producer.add(*partitions) == 0


# --- readers


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_committed_records_are_seen_at_once_and_aborted_ones_never(
    client: CoreClient, second: bool, commit: bool
) -> None:
    producer = of_protocol(client, second)
    begin(producer, ("t", 0), ("t", 1))
    assert producer.send("t", b"a").error_code == 0
    assert producer.send("t", b"b", partition=1).error_code == 0
    assert (read(client, "t"), read(client, "t", 1)) == ([], [])
    assert read(client, "t", isolation=READ_UNCOMMITTED) == [b"a"]

    assert producer.end(commit=commit) == 0

    expected = ([b"a"], [b"b"]) if commit else ([], [])
    assert (read(client, "t"), read(client, "t", 1)) == expected
    after = client.broker.crashed().connect()
    assert (read(after, "t"), read(after, "t", 1)) == expected


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(client: CoreClient) -> None:
    first, second = of_protocol(client, True, "first"), of_protocol(client, True, "second")
    first.send("t", b"a")
    second.send("t", b"b")
    assert (latest(client, "t"), latest(client, "t", isolation=READ_UNCOMMITTED)) == (0, 2)
    second.end(commit=True)
    assert (latest(client, "t"), read(client, "t")) == (0, [])
    first.end(commit=False)
    assert (latest(client, "t"), read(client, "t")) == (4, [b"b"])


def test_a_waiting_reader_is_told_when_the_transaction_commits(client: CoreClient, producer: WireProducer) -> None:
    producer.send("t", b"a")
    reader = client.broker.connect()
    assert reader.request(fetch("t", 0, max_wait_ms=10_000, isolation_level=1), 12) is None
    # It is not bothered with what it may not see yet.
    producer.send("t", b"b")
    assert reader.responses == []
    producer.end(commit=True)
    [answer] = reader.responses[-1].responses[0].partitions
    assert len(answer.records) > 0
    assert answer.last_stable_offset == 3


def test_records_outside_a_transaction_wait_behind_an_open_one(client: CoreClient, producer: WireProducer) -> None:
    producer.send("t", b"a")
    client.request(produce("t", batch(b"plain")), 12)
    assert read(client, "t") == []
    producer.end(commit=False)
    assert read(client, "t") == [b"plain"]


# --- what may be produced


@pytest.mark.parametrize(
    ("version", "error"), [(9, errors.InvalidTxnStateError), (11, errors.TransactionAbortableError)]
)
def test_older_clients_have_to_add_their_partitions(client: CoreClient, version: int, error: Any) -> None:
    producer = of_protocol(client, False)
    assert producer.add(("t", 1)) == 0
    assert producer.send("t", b"a", version=version).error_code == error.code
    assert producer.send("t", b"a", partition=1, version=version).error_code == 0
    assert latest(client, "t", isolation=READ_UNCOMMITTED) == 0


def test_without_verification_older_clients_are_trusted() -> None:
    client = CoreBroker({"transaction.partition.verification.enable": "false"}).connect()
    client.request(create("t", 1), 7)
    producer = of_protocol(client, False)
    assert producer.send("t", b"a").error_code == 0


def test_a_fenced_producer_writes_nothing_more(client: CoreClient, producer: WireProducer) -> None:
    producer.send("t", b"a")
    other = WireProducer(client)
    assert other.init() == errors.ConcurrentTransactionsError.code
    assert other.init() == 0
    for partition in (0, 1):
        answer = producer.send("t", b"late", partition=partition)
        assert answer.error_code == errors.InvalidProducerEpochError.code
    assert producer.end(commit=True) == errors.ProducerFencedError.code
    other.send("t", b"new")
    other.end(commit=True)
    assert read(client, "t") == [b"new"]


def test_a_delayed_batch_of_a_transaction_that_is_over_is_refused(client: CoreClient, producer: WireProducer) -> None:
    producer.send("t", b"a")
    late = produce("t", transactional_batch([b"late"], producer.producer_id, producer.epoch, 1))
    late.transactional_id = producer.transactional_id
    producer.end(commit=False)
    answer = client.request(late, 12).responses[0].partition_responses[0]
    assert answer.error_code == errors.InvalidProducerEpochError.code
    assert latest(client, "t") == 2


def test_sequences_begin_at_0_in_each_transaction(client: CoreClient, producer: WireProducer) -> None:
    # The batch before it was lost on the way: were this one taken, the records would stand in the wrong order.
    answer = producer.send("t", b"second", sequence=1)
    assert answer.error_code == errors.OutOfOrderSequenceError.code
    assert producer.send("t", b"first").error_code == 0
    assert producer.send("t", b"second").error_code == 0


def test_what_follows_a_batch_that_was_turned_away_does_not_overtake_it(client: CoreClient) -> None:
    producer = of_protocol(client, False)
    assert producer.send("t", b"first", sequence=0).error_code == errors.TransactionAbortableError.code
    producer.add(("t", 0))
    answer = producer.send("t", b"second", sequence=1)
    assert answer.error_code == errors.OutOfOrderSequenceError.code
    assert producer.send("t", b"first", sequence=0).error_code == 0
    assert producer.send("t", b"second", sequence=1).error_code == 0


def test_one_request_carries_one_producer(client: CoreClient, producer: WireProducer) -> None:
    request = produce("t", transactional_batch([b"a"], producer.producer_id, 0, 0))
    other = produce("t", transactional_batch([b"a"], producer.producer_id + 1, 0, 0), 1)
    request.transactional_id = "tx"
    request.topic_data[0].partition_data += other.topic_data[0].partition_data
    answers = client.request(request, 12).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [errors.InvalidPidMappingError.code] * 2


def test_producing_before_the_log_is_loaded_is_to_be_repeated(client: CoreClient, producer: WireProducer) -> None:
    producer.client = client.broker.crashed().connect()
    assert producer.send("t", b"a").error_code == errors.NotEnoughReplicasError.code
    producer.client.broker.advance(1)
    assert producer.send("t", b"a").error_code == 0


# --- AddPartitionsToTxn


def test_partitions_are_added_all_or_none(client: CoreClient) -> None:
    producer = of_protocol(client, False)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic("t", [0, 9]),
            AddPartitionsToTxnTopic("missing", [0]),
            AddPartitionsToTxnTopic("__consumer_offsets", [0]),
        ],
    )
    results = client.request(request, 3).results_by_topic_v3_and_below
    assert [[part.partition_error_code for part in topic.results_by_partition] for topic in results] == [
        [errors.OperationNotAttemptedError.code, errors.UnknownTopicOrPartitionError.code],
        [errors.UnknownTopicOrPartitionError.code],
        [errors.TopicAuthorizationError.code],
    ]
    assert state(client) == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_add_and_verify_in_batches(client: CoreClient, producer: WireProducer, version: int) -> None:
    def transaction(verify_only: bool, *partitions: int, epoch: int = 0) -> AddPartitionsToTxnTransaction:
        topics = [AddPartitionsToTxnTopic("t", list(partitions))]
        return AddPartitionsToTxnTransaction("tx", producer.producer_id, epoch, verify_only, topics)

    def codes(*transactions: AddPartitionsToTxnTransaction) -> list[list[int]]:
        results = client.request(AddPartitionsToTxnRequest(list(transactions)), version).results_by_transaction
        return [[p.partition_error_code for p in found.topic_results[0].results_by_partition] for found in results]

    not_in = errors.TransactionAbortableError.code
    assert codes(transaction(False, 1), transaction(True, 0, 1)) == [[0], [not_in, 0]]
    assert codes(transaction(True, 0, epoch=7)) == [[errors.ProducerFencedError.code]]


@pytest.mark.parametrize(
    ("version", "code"), [(1, errors.InvalidProducerEpochError.code), (2, errors.ProducerFencedError.code)]
)
def test_old_clients_are_told_of_fencing_in_their_words(client: CoreClient, version: int, code: int) -> None:
    producer = of_protocol(client, False)
    of_protocol(client, False)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic("t", [0])],
    )
    [topic] = client.request(request, version).results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == code


# --- offsets


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_the_transaction_commits(client: CoreClient, second: bool, commit: bool) -> None:
    producer = of_protocol(client, second)
    assert producer.commit_offset("g", "t", 5) == 0
    assert committed(client, "g", "t") == (-1, errors.UnstableOffsetCommitError.code)
    assert committed(client, "g", "t", stable=False) == (-1, 0)

    producer.end(commit=commit)

    expected = (5 if commit else -1, 0)
    assert committed(client, "g", "t") == expected
    after = client.broker.crashed().connect()
    after.broker.advance(1)
    assert committed(after, "g", "t") == expected


def test_pending_offsets_are_still_pending_after_a_crash(client: CoreClient, producer: WireProducer) -> None:
    producer.commit_offset("g", "t", 5)
    producer.client = after = client.broker.crashed().connect()
    after.broker.advance(1)
    assert committed(after, "g", "t") == (-1, errors.UnstableOffsetCommitError.code)
    producer.end(commit=True)
    assert committed(after, "g", "t") == (5, 0)


def test_groups_in_other_partitions_have_their_own_markers(client: CoreClient, producer: WireProducer) -> None:
    groups = [f"g{number}" for number in range(10)]
    for group in groups:
        assert producer.commit_offset(group, "t", 5) == 0
    producer.end(commit=True)
    # The next transaction of the same producer is open in one of them when the broker dies.
    assert producer.commit_offset("g3", "t", 9) == 0
    after = client.broker.crashed().connect()
    after.broker.advance(1)
    for group in groups:
        assert committed(after, group, "t", stable=False) == (5, 0)
    assert committed(after, "g3", "t") == (-1, errors.UnstableOffsetCommitError.code)


def test_offsets_of_unknown_partitions_and_of_strangers_are_refused(client: CoreClient, producer: WireProducer) -> None:
    assert producer.commit_offset("g", "t", 5, partition=7) == errors.UnknownTopicOrPartitionError.code
    assert producer.commit_offset("g", "missing", 5) == errors.UnknownTopicOrPartitionError.code
    assert producer.commit_offset("g", "t", 5, generation_id=3, member_id="m") == errors.IllegalGenerationError.code
    other = WireProducer(client)
    # The group was added before its member was checked: there is a transaction to abort.
    assert other.init() == errors.ConcurrentTransactionsError.code
    assert other.init() == 0
    assert producer.commit_offset("g", "t", 5) == errors.InvalidProducerEpochError.code


def test_older_clients_have_to_add_the_group(client: CoreClient) -> None:
    producer = of_protocol(client, False)
    assert _commit_without_adding(producer, 3) == errors.InvalidTxnStateError.code
    assert _commit_without_adding(producer, 4) == errors.TransactionAbortableError.code


def _commit_without_adding(producer: WireProducer, version: int) -> int:
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic("t", [part])],
    )
    return int(producer.client.request(request, version).topics[0].partitions[0].error_code)


# --- time-outs


def test_readers_get_past_a_producer_that_vanished(client: CoreClient, producer: WireProducer) -> None:
    gone = WireProducer(client, "gone")
    gone.init(timeout_ms=5000)
    gone.send("t", b"lost")
    producer.send("t", b"kept")
    producer.end(commit=True)
    assert read(client, "t") == []
    client.broker.advance(16)
    assert read(client, "t") == [b"kept"]


# --- administration


def state(client: CoreClient, transactional_id: str = "tx") -> str:
    [found] = client.request(DescribeTransactionsRequest([transactional_id]), 0).transaction_states
    return str(found.transaction_state)


def test_coordinators_of_transactions_are_found(client: CoreClient) -> None:
    [found] = client.request(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 4).coordinators
    assert (found.node_id, found.port, found.error_code) == (1, 9092, 0)
    topics = client.request(MetadataRequest(topics=None), 9).topics
    [internal] = [topic for topic in topics if topic.name == "__transaction_state"]
    assert internal.is_internal
    assert len(internal.partitions) == 50


def test_open_transactions_are_listed_by_every_filter(client: CoreClient, producer: WireProducer) -> None:
    other = of_protocol(client, True, "other")
    producer.send("t", b"a")
    client.broker.advance(10)

    def listed(**filters: Any) -> list[str]:
        response = client.request(ListTransactionsRequest(**filters), 2)
        assert response.error_code == 0
        return [found.transactional_id for found in response.transaction_states]

    assert listed() == ["tx", "other"]
    assert listed(state_filters=["Ongoing"]) == ["tx"]
    assert listed(producer_id_filters=[other.producer_id]) == ["other"]
    assert listed(state_filters=["Ongoing"], duration_filter=9000) == ["tx"]
    assert listed(state_filters=["Ongoing"], duration_filter=11_000) == []
    assert listed(transactional_id_pattern="t.") == ["tx"]
    assert listed(transactional_id_pattern="t") == []
    unknown = client.request(ListTransactionsRequest(state_filters=["Nope"]), 2)
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Nope"], [])
    refused = client.request(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert refused.error_code == errors.InvalidRegularExpressionError.code


def test_transactions_are_described(client: CoreClient, producer: WireProducer) -> None:
    producer.send("t", b"a", partition=1)
    known, unknown, empty = client.request(DescribeTransactionsRequest(["tx", "nope", ""]), 0).transaction_states
    assert (known.transaction_state, known.producer_id, known.producer_epoch) == ("Ongoing", producer.producer_id, 0)
    assert (known.transaction_timeout_ms, known.transaction_start_time_ms) == (60_000, client.broker.now_ms)
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("t", [1])]
    assert unknown.error_code == errors.TransactionalIdNotFoundError.code
    assert empty.error_code == errors.InvalidRequestError.code


def test_a_hanging_transaction_is_found_and_ended(client: CoreClient) -> None:
    # A client from before verification, and a broker that trusts it.
    client = CoreBroker({"transaction.partition.verification.enable": "false"}).connect()
    client.request(create("t", 1), 7)
    producer = of_protocol(client, False)
    producer.send("t", b"hanging")
    assert state(client) == "Empty"
    assert latest(client, "t") == 0

    [topic] = client.request(DescribeProducersRequest([TopicRequest("t", [0, 5])]), 0).topics
    [found] = topic.partitions[0].active_producers
    assert (found.producer_id, found.current_txn_start_offset, found.last_sequence) == (producer.producer_id, 0, 0)
    assert topic.partitions[1].error_code == errors.UnknownTopicOrPartitionError.code
    marker = WritableTxnMarker(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic("t", [0, 5])],
        coordinator_epoch=found.coordinator_epoch,
    )
    answered = client.request(WriteTxnMarkersRequest([marker]), 1).markers[0].topics[0].partitions

    assert [part.error_code for part in answered] == [0, errors.UnknownTopicOrPartitionError.code]
    assert latest(client, "t") == 2
    assert read(client, "t") == []


def test_a_marker_of_the_second_protocol_needs_a_later_epoch(client: CoreClient, producer: WireProducer) -> None:
    producer.send("t", b"a")

    def end(epoch: int) -> int:
        topics = [WritableTxnMarkerTopic("t", [0])]
        marker = WritableTxnMarker(producer.producer_id, epoch, False, topics, 0, transaction_version=2)
        return int(client.request(WriteTxnMarkersRequest([marker]), 2).markers[0].topics[0].partitions[0].error_code)

    assert end(0) == errors.InvalidProducerEpochError.code
    assert (end(1), end(1)) == (0, 0)


def test_a_bad_time_out_is_refused(client: CoreClient) -> None:
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=10**9)
    assert client.request(request, 5).error_code == errors.InvalidTxnTimeoutError.code
