"""The Sender on virtual time: requests, answers, retries, expiry, splits."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.client.producer.append import RecordMetadata
from barnabas.errors import KafkaTimeoutError
from barnabas.protocol.api import ApiKey
from tests.unit.client.producer.harness import TOPIC, Harness

SENDER = "barnabas.client.producer.sender:Sender"
ACCUMULATOR = "barnabas.client.producer.record_accumulator:RecordAccumulator"


def code(name: str) -> int:
    return next(number for number, found in errors.BY_CODE.items() if found.name == name)


NOT_LEADER = code("NOT_LEADER_OR_FOLLOWER")
TOO_LARGE = code("MESSAGE_TOO_LARGE")
TOPIC_DENIED = code("TOPIC_AUTHORIZATION_FAILED")
INVALID_RECORD = code("INVALID_RECORD")
CORRUPT = code("CORRUPT_MESSAGE")


def memory_is_back(harness: Harness) -> bool:
    return harness.pool.available_memory == harness.pool.total_memory and not harness.accumulator.has_incomplete()


# --- the way of a batch


@pytest.mark.shows("S4.35", breaks=f"{SENDER}.send_producer_data")
@pytest.mark.shows("S4.36", breaks=f"{ACCUMULATOR}.drain")
@pytest.mark.shows("S4.42", breaks=f"{SENDER}._send_produce_request")
def test_run_once_drains_the_accumulator_into_one_request_for_each_node() -> None:
    harness = Harness(partitions=4, nodes=2, leaders=lambda partition: 1 + partition % 2)
    for partition in range(4):
        harness.send(b"%d" % partition, partition=partition)

    harness.settle()

    assert harness.sent_values(1) == [[b"0"], [b"2"]]
    assert harness.sent_values(2) == [[b"1"], [b"3"]]
    assert [len(harness.waiting(node)) for node in (1, 2)] == [1, 1]


@pytest.mark.shows("S3.51", breaks="barnabas.client.producer.produce_request_result:ProduceRequestResult.outcome")
def test_each_record_learns_its_own_offset() -> None:
    harness = Harness(linger_ms=5)
    futures = [harness.send(b"%d" % n, key=b"k", timestamp=50 + n) for n in range(3)]
    assert not futures[0].done()
    with pytest.raises(KafkaTimeoutError):
        futures[0].result(0)

    harness.turn(0.005)
    harness.settle()
    harness.respond(base_offset=40)

    assert [future.result(0) for future in futures] == [
        RecordMetadata(TOPIC, 0, 40 + n, 50 + n, 1, 1) for n in range(3)
    ]
    assert str(futures[2].result(0)) == "t-0@42"
    assert memory_is_back(harness)


@pytest.mark.shows("S3.52", breaks="barnabas.client.producer.producer_batch:ProducerBatch._done")
def test_callbacks_run_in_order_with_metadata_or_error_and_one_that_raises_harms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness, seen = Harness(linger_ms=5), list[Any]()

    def broken(metadata: object, error: object) -> None:
        raise RuntimeError("the user's fault")

    harness.send(on_delivery=lambda metadata, error: seen.append((str(metadata), error)))
    harness.send(on_delivery=broken)
    harness.send(on_delivery=lambda metadata, error: seen.append((str(metadata), error)))
    harness.turn(0.005)
    harness.settle()
    harness.respond(base_offset=7)
    failing = harness.send(on_delivery=lambda metadata, error: seen.append((str(metadata), type(error))))
    harness.turn(0.005)
    harness.respond(TOPIC_DENIED)

    assert seen == [("t-0@7", None), ("t-0@9", None), ("t-0@-1", errors.TopicAuthorizationError)]
    assert isinstance(failing.exception(0), errors.TopicAuthorizationError)
    assert "the user's fault" in caplog.text


def test_a_callback_may_ask_for_the_result_of_its_own_record() -> None:
    harness, seen = Harness(), list[str]()
    futures: list[Any] = []
    futures.append(harness.send(on_delivery=lambda metadata, error: seen.append(str(futures[0].result()))))
    harness.settle()
    harness.respond(base_offset=3)

    assert seen == ["t-0@3"]


def test_done_callbacks_run_when_the_record_is_done_or_at_once() -> None:
    harness, seen = Harness(), list[Any]()
    future = harness.send()
    future.add_done_callback(lambda done: seen.append(("later", done.result(0).offset)))
    harness.settle()
    assert seen == []

    harness.respond(base_offset=4)
    future.add_done_callback(lambda done: seen.append(("at once", done.result(0).offset)))

    assert seen == [("later", 4), ("at once", 4)]


def test_the_brokers_timestamp_wins_where_the_topic_stamps_on_append() -> None:
    harness = Harness()
    future = harness.send(timestamp=1)
    harness.settle()

    harness.respond(log_append_time=99)

    assert future.result(0).timestamp == 99


def test_acks_0_completes_when_the_request_is_sent_without_an_offset() -> None:
    harness = Harness(acks="0")
    future = harness.send()

    harness.settle()

    assert (future.result(0).offset, memory_is_back(harness)) == (-1, True)


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    harness = Harness(batch_size=1, max_in_flight_requests_per_connection=3, enable_idempotence=False)
    for number in range(9):
        harness.send(b"%d" % number)

    harness.settle()

    assert harness.sent_values() == [[b"0"], [b"1"], [b"2"]]


# --- retries


def test_a_retriable_error_sends_the_batch_again_after_the_backoff_with_fresh_metadata() -> None:
    harness = Harness()
    future = harness.send()
    harness.settle()
    asked = len([1 for _, header, _ in harness.selector.received if header.request_api_key == ApiKey.METADATA])

    harness.respond(NOT_LEADER)
    harness.settle()
    assert not harness.waiting()
    harness.turn(0.2)
    harness.settle()

    assert len(harness.waiting()) == 1
    assert asked < len([1 for _, header, _ in harness.selector.received if header.request_api_key == ApiKey.METADATA])
    harness.respond(base_offset=1)
    assert future.result(0).offset == 1
    assert harness.metrics.as_dict(harness.now)["record-retry-total"] == 1


def test_a_named_new_leader_is_tried_without_asking_or_waiting() -> None:
    harness = Harness(nodes=2)
    future = harness.send()
    harness.settle()
    harness.leaders, harness.leader_epoch = (lambda _: 2), 5

    harness.respond(NOT_LEADER, leader=(2, 5), endpoints=(2,))
    harness.settle()

    assert harness.sent_values(2) == [[b"v"]]
    harness.respond(node=2, base_offset=9)
    assert future.result(0).offset == 9


def test_an_error_that_stays_fails_the_batch_at_once() -> None:
    harness = Harness()
    future = harness.send()
    harness.settle()

    harness.respond(TOPIC_DENIED)

    error = future.exception(0)
    assert isinstance(error, errors.TopicAuthorizationError)
    assert error.resources == (TOPIC,)
    assert memory_is_back(harness)


def test_retries_end_after_the_given_number() -> None:
    harness = Harness(retries=1, enable_idempotence=False)
    future = harness.send()
    harness.settle()
    harness.respond(CORRUPT)
    harness.turn(0.2)
    harness.settle()

    harness.respond(CORRUPT)

    assert isinstance(future.exception(0), errors.CorruptRecordError)
    assert memory_is_back(harness)


def test_a_lost_connection_sends_the_batches_again_in_order() -> None:
    harness = Harness(batch_size=1)
    futures = [harness.send(b"%d" % number) for number in range(3)]
    harness.settle()

    harness.selector.break_connection(1)
    harness.turn()
    delivered = []
    for _ in range(30):
        harness.turn(0.2)
        harness.settle()
        if harness.waiting():
            delivered += harness.sent_values()[:1]
            harness.respond(base_offset=len(delivered) - 1)

    assert delivered == [[b"0"], [b"1"], [b"2"]]
    assert [future.result(0).offset for future in futures] == [0, 1, 2]


def test_a_request_without_an_answer_times_out_and_is_sent_again() -> None:
    harness = Harness(request_timeout_ms=1000, delivery_timeout_ms=10_000)
    future = harness.send()
    harness.settle()

    harness.turn(1.1)
    for _ in range(10):
        harness.turn(0.2)
        harness.settle()

    assert not future.done()
    assert harness.sent_values() == [[b"v"]]


def test_one_request_in_flight_mutes_the_partition_until_it_is_answered() -> None:
    harness = Harness(batch_size=1, max_in_flight_requests_per_connection=1, enable_idempotence=False)
    for number in range(2):
        harness.send(b"%d" % number)
    harness.settle()

    harness.respond(NOT_LEADER)
    harness.turn(0.2)
    harness.settle()
    assert harness.sent_values() == [[b"0"]]
    harness.respond()
    harness.settle()
    assert harness.sent_values() == [[b"1"]]


# --- expiry


def test_records_fail_after_the_delivery_timeout_whether_waiting_or_under_way() -> None:
    harness = Harness(batch_size=1, max_in_flight_requests_per_connection=1, request_timeout_ms=900,
                      delivery_timeout_ms=1000)  # fmt: skip
    futures = [harness.send(b"%d" % number) for number in range(2)]
    harness.settle()

    harness.turn(0.5)
    assert not any(future.done() for future in futures)
    harness.turn(0.5)

    assert all(isinstance(future.exception(0), KafkaTimeoutError) for future in futures)
    assert "expired" in str(futures[0].exception(0))
    assert memory_is_back(harness)


def test_a_record_that_expires_says_what_the_broker_said_last() -> None:
    harness = Harness(request_timeout_ms=900, delivery_timeout_ms=2000, retries=100)
    future = harness.send(b"v")
    harness.settle()
    harness.respond(errors.KafkaStorageError.code)
    harness.turn(2.0)

    error = future.exception(0)
    assert isinstance(error, KafkaTimeoutError)
    assert "expired" in str(error)
    assert "KAFKA_STORAGE_ERROR" in str(error)
    assert isinstance(error.__cause__, errors.KafkaStorageError)


def test_an_answer_after_expiry_changes_nothing_and_the_partition_goes_on() -> None:
    harness = Harness(request_timeout_ms=2000, delivery_timeout_ms=2000)
    late = harness.send(b"late")
    harness.settle()
    harness.now += 2.0
    harness.sender._expire_batches(harness.now)
    assert isinstance(late.exception(0), KafkaTimeoutError)
    fresh = harness.send(b"fresh")

    harness.respond(base_offset=0)
    harness.settle()
    harness.respond(base_offset=1)

    assert isinstance(late.exception(0), KafkaTimeoutError)
    assert fresh.result(0).offset == 1


def test_expired_batches_whose_fate_is_unknown_raise_the_epoch_before_new_ones_go() -> None:
    harness = Harness(request_timeout_ms=900, delivery_timeout_ms=1000)
    harness.send(b"lost")
    harness.settle()
    harness.turn(1.0)
    for _ in range(3):
        harness.turn(0.2)
    harness.send(b"next")
    harness.settle()

    (batch,) = harness.batches()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


# --- splitting


def test_a_batch_too_large_for_the_broker_is_split_and_every_record_keeps_its_future_and_callback() -> None:
    harness, seen = Harness(batch_size=16384, linger_ms=5), list[tuple[int, int]]()
    futures = [
        harness.send(b"%02d" % n + b"x" * 1000, on_delivery=lambda m, e, n=n: seen.append((n, m.offset)))
        for n in range(8)
    ]
    harness.accumulator.batch_size = 3000
    done_later: list[int] = []
    futures[7].add_done_callback(lambda future: done_later.append(future.result(0).offset))
    harness.turn(0.005)
    harness.settle()
    assert len(harness.sent_values()[0]) == 8

    harness.respond(TOO_LARGE)
    offset = 0
    while harness.accumulator.has_incomplete():
        harness.settle()
        (*_, count) = [len(harness.sent_values()[0])]
        harness.respond(base_offset=offset)
        offset += count

    assert [future.result(0).offset for future in futures] == list(range(8))
    assert seen == [(n, n) for n in range(8)]
    assert done_later == [7]
    assert harness.metrics.as_dict(harness.now)["batch-split-total"] == 1
    assert memory_is_back(harness)


def test_the_parts_of_a_split_batch_keep_its_sequence_numbers() -> None:
    harness = Harness(batch_size=16384, linger_ms=5, max_in_flight_requests_per_connection=5)
    for _ in range(4):
        harness.send(b"x" * 1000)
    harness.turn(0.005)
    harness.settle()
    harness.accumulator.batch_size = 1500

    harness.respond(TOO_LARGE)
    numbered = []
    while harness.accumulator.has_incomplete():
        harness.settle()
        numbered += [(batch.base_sequence, batch.record_count) for batch in harness.batches()[:1]]
        harness.respond()

    assert numbered == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_a_single_record_too_large_for_the_broker_fails() -> None:
    harness = Harness()
    future = harness.send(b"x" * 1000)
    harness.settle()

    harness.respond(TOO_LARGE)

    assert isinstance(future.exception(0), errors.RecordTooLargeError)


def test_invalid_records_fail_with_their_own_error_and_the_others_say_so() -> None:
    harness = Harness(linger_ms=5)
    futures = [harness.send() for _ in range(3)]
    harness.turn(0.005)
    harness.settle()

    harness.respond(INVALID_RECORD, record_errors=[(1, "no key")])

    assert isinstance(futures[1].exception(0), errors.InvalidRecordError)
    assert str(futures[1].exception(0)) == "no key"
    assert "other records of its batch" in str(futures[0].exception(0))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_when_they_are_drained(codec: str) -> None:
    harness = Harness(compression_type=codec, linger_ms=5)
    for _ in range(50):
        harness.send(b"x" * 100)
    harness.turn(0.005)
    harness.settle()

    batches = harness.batches()

    assert all(batch.compression == codec for batch in batches)
    assert sum(batch.record_count for batch in batches) == 50
    assert harness.metrics.as_dict(harness.now)["compression-rate-avg"] < 0.5


def test_callbacks_follow_their_records_into_the_parts_of_a_split_batch() -> None:
    harness, seen = Harness(linger_ms=5), dict[int, Any]()
    for n in range(20):
        wanted = n in (3, 4, 11, 19)
        on_delivery = (lambda metadata, error, n=n: seen.update({n: (metadata, error)})) if wanted else None
        harness.send(b"x" * n, key=b"k" * (n % 3), on_delivery=on_delivery, timestamp=100 + n)
    harness.turn(0.005)
    harness.settle()

    harness.respond(TOO_LARGE)
    parts, base = 0, 0
    while len(seen) < 4:
        harness.turn(0.2, times=3)
        count = len(harness.sent_values()[0])
        harness.respond(base_offset=base)
        parts, base = parts + 1, base + count

    assert parts > 1
    assert seen == {n: (RecordMetadata(TOPIC, 0, n, 100 + n, n % 3, n), None) for n in (3, 4, 11, 19)}
