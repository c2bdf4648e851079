from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.core_broker import START_MS, CoreBroker, CoreClient, batch, create, fetch, produce


@pytest.fixture
def client(broker: CoreBroker) -> CoreClient:
    client = broker.connect()
    client.request(create("t", 2), 7)
    return client


def append(client: CoreClient, records: bytes, version: int = 12, **how: Any) -> Any:
    return client.request(produce("t", records, **how), version).responses[0].partition_responses[0]


def values(client: CoreClient, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    response = client.request(fetch(topic, 0, partition), 12).responses[0].partitions[0]
    return [record.value for found in read_batches(response.records) for record in found]


def test_records_get_the_next_offsets(client: CoreClient) -> None:
    assert append(client, batch(b"a", b"b")).base_offset == 0
    assert append(client, batch(b"c")).base_offset == 2
    assert append(client, batch(b"other"), partition=1).base_offset == 0
    assert values(client) == [b"a", b"b", b"c"]


def test_the_response_tells_the_append_time_only_where_the_log_sets_it(client: CoreClient) -> None:
    assert append(client, batch(b"a")).log_append_time_ms == -1
    client.request(create("stamped", message_timestamp_type="LogAppendTime"), 7)
    client.broker.advance(5)
    response = client.request(produce("stamped", batch(b"a", now_ms=START_MS - 1_000_000)), 12)
    assert response.responses[0].partition_responses[0].log_append_time_ms == START_MS + 5000


def test_acks_0_has_no_response(client: CoreClient) -> None:
    client.send(produce("t", batch(b"a"), acks=0), 12)
    client._expected.pop()
    assert values(client) == [b"a"]


def test_an_error_with_acks_0_closes_the_connection(client: CoreClient) -> None:
    client.send(produce("missing", batch(b"a"), acks=0), 12)
    assert client.closed
    assert "UNKNOWN_TOPIC_OR_PARTITION" in client.broker.warnings[0]


@pytest.mark.parametrize("acks", [-2, 2, 17])
def test_other_acks_are_refused(client: CoreClient, acks: int) -> None:
    assert append(client, batch(b"a"), acks=acks).error_code == errors.InvalidRequiredAcksError.code


@pytest.mark.parametrize(("topic", "partition"), [("missing", 0), ("t", 2), ("t", -1)])
def test_a_partition_that_is_not_there_has_its_own_error(client: CoreClient, topic: str, partition: int) -> None:
    response = client.request(produce(topic, batch(b"a"), partition), 12).responses[0].partition_responses[0]
    assert response.error_code == errors.UnknownTopicOrPartitionError.code
    assert response.base_offset == -1


def test_an_unknown_topic_id_has_its_own_error(client: CoreClient) -> None:
    response = client.request(produce("", batch(b"a"), topic_id=b"x" * 16), 13)
    assert response.responses[0].partition_responses[0].error_code == errors.UnknownTopicIdError.code


def test_a_damaged_batch_is_refused_and_not_written(client: CoreClient) -> None:
    records = bytearray(batch(b"a" * 100))
    records[-1] ^= 1
    assert append(client, bytes(records)).error_code == errors.CorruptRecordError.code
    assert append(client, batch(b"good")).base_offset == 0


def not_a_batch() -> dict[str, bytes]:
    whole = batch(b"a")
    return {
        "nothing": b"",
        "two": whole * 2,
        "cut": whole[:-1],
        "more": whole + b"x",
        "magic 1": whole[:16] + b"\x01" + whole[17:],
    }


@pytest.mark.parametrize("what", not_a_batch())
def test_exactly_one_batch_of_magic_2_is_taken(client: CoreClient, what: str) -> None:
    assert append(client, not_a_batch()[what]).error_code == errors.InvalidRecordError.code


def test_zstd_needs_version_7(client: CoreClient) -> None:
    records = batch(b"a" * 100, compression="zstd")
    assert append(client, records, version=6).error_code == errors.UnsupportedCompressionTypeError.code
    assert append(client, records, version=7).error_code == 0


def test_a_batch_larger_than_max_message_bytes_is_refused(client: CoreClient) -> None:
    client.request(create("small", max_message_bytes="200"), 7)
    response = client.request(produce("small", batch(b"a" * 300)), 12).responses[0].partition_responses[0]
    assert response.error_code == errors.RecordTooLargeError.code


HOUR_MS = 3_600_000


def records(*of: tuple[bytes | None, int], compression: str = "none") -> bytes:
    """A batch of records with these keys and times."""
    builder = RecordBatchBuilder(1 << 20, compression=compression)
    for key, timestamp in of:
        assert builder.try_append(timestamp, key, b"v", []) >= 0
    return bytes(builder.close())


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_refused_batch_names_the_records_that_break_a_rule_and_no_others(
    client: CoreClient, compression: str
) -> None:
    client.request(create("compacted", cleanup_policy="compact"), 7)
    sent = records((b"k", START_MS), (None, START_MS), (b"k", START_MS), (None, START_MS), compression=compression)

    refused = client.request(produce("compacted", sent), 12).responses[0].partition_responses[0]

    assert refused.error_code == errors.InvalidRecordError.code
    assert [error.batch_index for error in refused.record_errors] == [1, 3]
    assert all("without a key" in error.batch_index_error_message for error in refused.record_errors)
    assert values(client, "compacted") == []


def test_with_a_wrong_time_among_the_reasons_the_batch_has_that_error(client: CoreClient) -> None:
    client.request(create("both", cleanup_policy="compact"), 7)
    late = START_MS + 2 * HOUR_MS
    sent = records((b"k", START_MS), (b"k", late), (None, START_MS), (None, late))

    refused = client.request(produce("both", sent), 12).responses[0].partition_responses[0]

    assert refused.error_code == errors.InvalidTimestampError.code
    assert [error.batch_index for error in refused.record_errors] == [1, 2, 3]
    assert str(late) in refused.record_errors[0].batch_index_error_message


def test_small_records_do_not_cost_a_large_answer(client: CoreClient) -> None:
    client.request(create("compacted", cleanup_policy="compact"), 7)
    sent = records(*[(None, START_MS)] * 20_000)

    refused = client.request(produce("compacted", sent), 12).responses[0].partition_responses[0]

    assert refused.error_code == errors.InvalidRecordError.code
    assert [error.batch_index for error in refused.record_errors] == list(range(1000))


def test_internal_topics_are_written_by_the_broker_only(client: CoreClient) -> None:
    client.broker.state.topic_admin.ensure_internal("__consumer_offsets", START_MS)
    request = produce("__consumer_offsets", batch(b"a"))
    response = client.request(request, 12).responses[0].partition_responses[0]
    assert response.error_code == errors.InvalidTopicError.code


def test_transactional_records_need_a_transactional_id(client: CoreClient) -> None:
    builder = RecordBatchBuilder(1 << 10)
    builder.try_append(START_MS, b"key", b"a", [])
    builder.set_producer_state(1, 0, 0, transactional=True)
    response = client.request(produce("t", bytes(builder.close())), 12).responses[0].partition_responses[0]
    assert response.error_code == errors.TransactionalIdAuthorizationError.code
    assert values(client) == []


class TestIdempotence:
    def test_producer_ids_are_never_given_twice_not_even_after_a_crash(self, client: CoreClient) -> None:
        def new_ids(from_client: CoreClient, count: int) -> list[int]:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            return [from_client.request(request, 5).producer_id for _ in range(count)]

        before = new_ids(client, 1500)
        after = new_ids(client.broker.crashed().connect(), 10)
        assert len(set(before + after)) == 1510
        assert min(after) > max(before)

    def test_an_id_without_an_epoch_is_an_invalid_request(self, client: CoreClient) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, producer_id=5)
        assert client.request(request, 5).error_code == errors.InvalidRequestError.code

    def test_a_repeated_batch_is_acknowledged_again_and_stored_once(self, client: CoreClient) -> None:
        first = append(client, batch(b"a", b"b", producer=(7, 0, 0)))
        again = append(client, batch(b"a", b"b", producer=(7, 0, 0)))
        assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0)
        assert values(client) == [b"a", b"b"]

    def test_a_gap_in_the_sequence_is_refused(self, client: CoreClient) -> None:
        append(client, batch(b"a", producer=(7, 0, 0)))
        refused = append(client, batch(b"c", producer=(7, 0, 2)))
        assert refused.error_code == errors.OutOfOrderSequenceError.code
        assert values(client) == [b"a"]

    def test_an_old_epoch_is_fenced(self, client: CoreClient) -> None:
        append(client, batch(b"a", producer=(7, 1, 0)))
        refused = append(client, batch(b"b", producer=(7, 0, 0)))
        assert refused.error_code == errors.InvalidProducerEpochError.code

    def test_a_repeated_batch_is_recognised_after_a_crash(self, client: CoreClient) -> None:
        append(client, batch(b"a", producer=(7, 0, 0)))
        after = client.broker.crashed().connect()
        assert append(after, batch(b"a", producer=(7, 0, 0))).base_offset == 0
        assert values(after) == [b"a"]


def test_what_was_acknowledged_is_there_after_a_crash(client: CoreClient) -> None:
    for number in range(50):
        append(client, batch(b"%d" % number))
    after = client.broker.crashed().connect()
    assert values(after) == [b"%d" % number for number in range(50)]
    assert [topic.name for topic in after.request(MetadataRequest(topics=None), 12).topics] == ["t"]


def test_responses_come_in_order_when_requests_are_sent_ahead(client: CoreClient) -> None:
    for number in range(100):
        client.send(produce("t", batch(b"%d" % number)), 12)
    offsets = [r.responses[0].partition_responses[0].base_offset for r in client.responses[1:]]  # type: ignore[attr-defined]  # ProduceResponse
    assert offsets == list(range(100))
