"""The Sender of an idempotent producer on virtual time: producer ids, sequence numbers, epochs."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.errors import KafkaError, KafkaTimeoutError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse
from tests.unit.client.producer.harness import T0, T1, Harness

TRANSACTIONS = "barnabas.client.producer.transactions.txn_partition_map:TxnPartitionMap"


def code(name: str) -> int:
    return next(number for number, found in errors.BY_CODE.items() if found.name == name)


NOT_LEADER = code("NOT_LEADER_OR_FOLLOWER")
OUT_OF_ORDER = code("OUT_OF_ORDER_SEQUENCE_NUMBER")
DUPLICATE = code("DUPLICATE_SEQUENCE_NUMBER")
UNKNOWN_PRODUCER = code("UNKNOWN_PRODUCER_ID")
INVALID_RECORD = code("INVALID_RECORD")


def memory_is_back(harness: Harness) -> bool:
    return harness.pool.available_memory == harness.pool.total_memory and not harness.accumulator.has_incomplete()


def test_batches_carry_producer_id_epoch_and_rising_sequence_numbers_per_partition() -> None:
    harness, found = Harness(linger_ms=5), list[tuple[int, ...]]()
    for _ in range(2):
        for partition in (0, 0, 1):
            harness.send(partition=partition)
        harness.turn(0.005)
        harness.settle()
        found += [(batch.producer_id, batch.producer_epoch, batch.base_sequence) for batch in harness.batches()]
        harness.respond()

    assert sorted(found) == [(101, 0, 0), (101, 0, 0), (101, 0, 1), (101, 0, 2)]


@pytest.mark.shows("S3.54", breaks=f"{TRANSACTIONS}.may_send")
def test_the_first_batch_of_a_partition_goes_alone_then_five_requests_are_in_flight_in_order() -> None:
    harness = Harness(batch_size=1)
    for number in range(8):
        harness.send(b"%d" % number)

    harness.settle()
    assert harness.sent_values() == [[b"0"]]
    harness.respond()
    harness.settle()

    assert harness.sent_values() == [[b"1"], [b"2"], [b"3"], [b"4"], [b"5"]]


@pytest.mark.shows("S3.54", breaks=f"{TRANSACTIONS}.handle_completed_batch")
def test_over_a_new_connection_the_first_batch_goes_alone_again() -> None:
    """The broker may have lost what it knew of the producer with its power, and would take any number then."""
    harness = Harness(batch_size=1)
    harness.send(b"before")
    harness.settle()
    harness.respond()
    harness.selector.break_connection(1)
    for number in range(3):
        harness.send(b"%d" % number)
    for _ in range(3):
        harness.turn(0.2)
        harness.settle()
    assert harness.sent_values() == [[b"0"]]

    harness.respond(NOT_LEADER)
    harness.turn(0.2)
    harness.settle()
    assert harness.sent_values() == [[b"0"]]
    harness.respond(base_offset=1)
    harness.settle()

    assert harness.sent_values() == [[b"1"], [b"2"]]


def test_to_a_new_leader_the_first_batch_goes_alone() -> None:
    harness = Harness(batch_size=1, nodes=2)
    for number in range(3):
        harness.send(b"%d" % number)
    harness.settle()
    harness.respond()
    harness.settle()
    assert harness.sent_values() == [[b"1"], [b"2"]]

    harness.leaders, harness.leader_epoch = lambda partition: 2, 1
    harness.metadata.update(harness.metadata_answer(), harness.now)
    for number in range(3, 6):
        harness.send(b"%d" % number)
    harness.settle()
    assert harness.sent_values(node=2) == []

    for _ in range(2):
        harness.respond()
    harness.settle()
    assert harness.sent_values(node=2) == [[b"3"]]
    harness.respond(node=2)
    harness.settle()

    assert harness.sent_values(node=2) == [[b"4"], [b"5"]]


def test_a_batch_at_a_leader_that_is_gone_goes_to_the_next_one_at_once_and_the_others_follow() -> None:
    """A machine that dies silently says nothing on its connections; the metadata do."""
    harness = Harness(batch_size=1, nodes=2)
    harness.send(b"before")
    harness.settle()
    harness.respond()
    for number in range(2):
        harness.send(b"%d" % number)
    harness.settle()
    lost = [batch.base_sequence for batch in harness.batches()]
    assert lost == [1, 2]

    answer = harness.metadata_answer
    harness.leaders, harness.leader_epoch = lambda partition: 2, 1

    def without_the_first() -> Any:
        response = answer()
        response.brokers = response.brokers[1:]
        return response

    harness.selector.handlers = {**(harness.selector.handlers or {}), ApiKey.METADATA: lambda _: without_the_first()}
    harness.turn(1.0)
    harness.send(b"2")
    for _ in range(4):
        harness.turn(0.1)
        harness.settle()
    sent = []
    for _ in range(3):
        sent += [batch.base_sequence for batch in harness.batches(2)][:1]
        harness.respond(node=2, base_offset=len(sent))
        harness.settle()

    assert sent == [*lost, 3]
    assert harness.now < 1002.0


def test_while_a_batch_is_in_flight_at_another_broker_nothing_goes_to_the_leader_of_before() -> None:
    """A broker remembers five batches of a producer: behind more of them the one that is sent again is unknown."""
    harness = Harness(batch_size=1, nodes=2)

    def lead(node: int) -> None:
        harness.leaders, harness.leader_epoch = lambda partition: node, harness.leader_epoch + 1
        harness.metadata.update(harness.metadata_answer(), harness.now)

    harness.send(b"0")
    harness.settle()
    harness.respond()
    lead(2)
    harness.send(b"1")
    harness.settle()
    assert harness.sent_values(node=2) == [[b"1"]]

    lead(1)
    for number in range(2, 5):
        harness.send(b"%d" % number)
    harness.settle()
    assert harness.sent_values() == []
    harness.respond(NOT_LEADER, node=2)
    for _ in range(3):
        harness.turn(0.2)
        harness.settle()
    assert harness.sent_values() == [[b"1"]]
    harness.respond(base_offset=1)
    harness.settle()

    assert harness.sent_values() == [[b"2"], [b"3"], [b"4"]]


def test_a_retry_keeps_its_sequence_number_and_goes_before_later_batches() -> None:
    harness = Harness(batch_size=1)
    harness.send(b"first")
    harness.settle()
    harness.respond(base_offset=0)
    futures = [harness.send(b"%d" % number) for number in range(3)]
    harness.settle()
    assert [batch.base_sequence for batch in harness.batches()] == [1, 2, 3]

    harness.respond(NOT_LEADER)
    harness.respond(OUT_OF_ORDER)
    harness.respond(OUT_OF_ORDER)
    order = []
    for _ in range(10):
        harness.turn(0.2)
        harness.settle()
        while harness.waiting():
            order += [(batch.base_sequence, batch.producer_epoch) for batch in harness.batches()[:1]]
            harness.respond(base_offset=len(order))

    assert order == [(1, 0), (2, 0), (3, 0)]
    assert [future.result(0).offset for future in futures] == [1, 2, 3]


def test_a_duplicate_counts_as_stored() -> None:
    harness = Harness()
    future = harness.send()
    harness.settle()

    harness.respond(DUPLICATE)

    assert future.exception(0) is None
    assert future.result(0).offset == -1


def test_a_gap_in_the_log_raises_the_epoch_and_numbers_from_zero() -> None:
    harness = Harness(batch_size=1)
    first = harness.send(b"a")
    harness.settle()
    harness.respond(base_offset=0)
    second = harness.send(b"b")
    harness.settle()

    harness.respond(OUT_OF_ORDER)
    harness.turn(0.2)
    harness.settle()

    (batch,) = harness.batches()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)
    harness.respond(base_offset=1)
    assert (first.result(0).offset, second.result(0).offset) == (0, 1)


def test_a_broker_that_forgot_the_producer_gets_a_new_epoch() -> None:
    harness = Harness(batch_size=1)
    harness.send(b"a")
    harness.settle()
    harness.respond(base_offset=0)
    future = harness.send(b"b")
    harness.settle()

    harness.respond(UNKNOWN_PRODUCER, log_start_offset=10)
    harness.turn(0.2)
    harness.settle()

    (batch,) = harness.batches()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)
    harness.respond(base_offset=11)
    assert future.result(0).offset == 11


def test_after_the_last_epoch_comes_a_new_producer_id() -> None:
    harness = Harness(batch_size=1)
    harness.send(b"a")
    harness.settle()
    harness.respond()
    assert harness.manager is not None
    harness.manager.sequences.producer = harness.manager.sequences.producer._replace(epoch=2**15 - 1)
    harness.send(b"b")
    harness.settle()
    harness.respond(OUT_OF_ORDER)
    harness.turn(0.2)
    harness.settle()
    harness.turn(0.2)
    harness.settle()

    (batch,) = harness.batches()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (102, 0, 0)


def test_sequence_numbers_wrap_after_the_largest() -> None:
    harness = Harness(linger_ms=5, batch_size=16384)
    harness.send()
    harness.turn(0.005)
    harness.settle()
    harness.respond()
    assert harness.manager is not None
    entry = harness.manager.sequences.entry(T0)
    entry.next_sequence, entry.last_acked_sequence = 2**31 - 2, 2**31 - 3
    sequences = []
    for _ in range(2):
        for _ in range(3):
            harness.send()
        harness.turn(0.005)
        harness.settle()
        sequences += [batch.base_sequence for batch in harness.batches()]
        harness.respond()

    assert sequences == [2**31 - 2, 1]


def test_no_producer_id_yet_means_nothing_is_sent_and_the_request_is_repeated() -> None:
    harness = Harness()
    answers = [InitProducerIdResponse(error_code=code("COORDINATOR_LOAD_IN_PROGRESS"))]
    assert harness.selector.handlers is not None
    plain = harness.selector.handlers[ApiKey.INIT_PRODUCER_ID]
    harness.selector.handlers[ApiKey.INIT_PRODUCER_ID] = lambda asked: answers.pop() if answers else plain(asked)
    harness.send()
    harness.settle()
    assert not harness.waiting()

    harness.turn(0.2)
    harness.settle()

    assert harness.sent_values() == [[b"v"]]


def test_records_expire_while_there_is_no_producer_id() -> None:
    harness = Harness(request_timeout_ms=900, delivery_timeout_ms=1000)
    assert harness.selector.handlers is not None
    del harness.selector.handlers[ApiKey.INIT_PRODUCER_ID]
    future = harness.send()
    harness.settle()

    harness.turn(1.0)

    assert isinstance(future.exception(0), KafkaTimeoutError)


def test_who_may_not_write_idempotently_is_told_and_may_try_again() -> None:
    harness = Harness()
    answers = [InitProducerIdResponse(error_code=code("CLUSTER_AUTHORIZATION_FAILED"))]
    assert harness.selector.handlers is not None
    plain = harness.selector.handlers[ApiKey.INIT_PRODUCER_ID]
    harness.selector.handlers[ApiKey.INIT_PRODUCER_ID] = lambda asked: answers.pop() if answers else plain(asked)
    denied = harness.send()
    harness.settle()
    assert isinstance(denied.exception(0), errors.ClusterAuthorizationError)

    allowed = harness.send()
    harness.turn(0.2)
    harness.settle()
    harness.respond()

    assert allowed.exception(0) is None


def test_a_fatal_error_fails_everything_from_then_on() -> None:
    harness = Harness()
    first = harness.send(partition=0)
    harness.settle()
    harness.respond(code("CLUSTER_AUTHORIZATION_FAILED"))
    second = harness.send(partition=1)

    harness.turn(0.2)

    assert isinstance(first.exception(0), errors.ClusterAuthorizationError)
    assert isinstance(second.exception(0), KafkaError)
    assert memory_is_back(harness)


def test_without_idempotence_batches_carry_no_producer_id() -> None:
    harness = Harness(enable_idempotence=False)
    harness.send(partition=T1.partition)
    harness.settle()

    (batch,) = harness.batches()
    assert (batch.producer_id, batch.base_sequence) == (-1, -1)
    assert harness.producer_ids == 0
