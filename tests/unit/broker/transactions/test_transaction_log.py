"""The records of `__transaction_state` are Apache Kafka's."""

from __future__ import annotations

import pytest

from barnabas.broker.transactions import transaction_state as states
from barnabas.broker.transactions.transaction_log import decode_key, decode_value, encode_key, encode_value
from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
from barnabas.errors import CorruptRecordError
from barnabas.protocol import json_view


def metadata(**how: object) -> TransactionMetadata:
    fields: dict[str, object] = {
        "state": states.ONGOING,
        "producer_epoch": 3,
        "previous_producer_id": 11,
        "partitions": frozenset([("b", 2), ("b", 0), ("a", 1)]),
        "start_ms": 77,
        "client_transaction_version": 2,
    }
    fields.update(how)
    return TransactionMetadata("id", 12, 60_000, 99, **fields)  # type: ignore[arg-type]  # fields by name


def test_the_key() -> None:
    assert encode_key("é") == b"\0\0\0\2\xc3\xa9"
    assert decode_key(encode_key("é")) == "é"
    assert decode_key(b"\0\1rest of another kind") is None


def test_the_value_is_version_1_with_its_tagged_fields() -> None:
    value = encode_value(metadata(next_producer_id=13))
    assert value[:2] == b"\0\1"
    assert json_view.from_bytes("TransactionLogValue", 1, value[2:]) == {
        "producerId": 12,
        "previousProducerId": 11,
        "nextProducerId": 13,
        "producerEpoch": 3,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": 1,
        "transactionPartitions": [{"topic": "a", "partitionIds": [1]}, {"topic": "b", "partitionIds": [0, 2]}],
        "transactionLastUpdateTimestampMs": 99,
        "transactionStartTimestampMs": 77,
        "clientTransactionVersion": 2,
    }


def test_an_empty_transaction_has_no_partitions_at_all() -> None:
    value = encode_value(metadata(state=states.EMPTY, partitions=frozenset()))
    assert json_view.from_bytes("TransactionLogValue", 1, value[2:])["transactionPartitions"] is None


@pytest.mark.parametrize("state", [0, 1, 2, 3, 4, 5])
def test_what_was_written_is_read_back(state: int) -> None:
    written = metadata(state=state, partitions=frozenset() if state == states.EMPTY else frozenset([("a", 1)]))
    assert repr(decode_value("id", encode_value(written))) == repr(written)


def test_values_of_older_clusters_are_read() -> None:
    old = json_view.to_bytes(
        "TransactionLogValue",
        0,
        {
            "producerId": 5,
            "producerEpoch": 1,
            "transactionTimeoutMs": 1000,
            "transactionStatus": 2,
            "transactionPartitions": [{"topic": "t", "partitionIds": [4]}],
            "transactionLastUpdateTimestampMs": 7,
            "transactionStartTimestampMs": 6,
        },
    )
    found = decode_value("id", b"\0\0" + old)
    assert (found.producer_id, found.state, found.partitions) == (5, states.PREPARE_COMMIT, frozenset([("t", 4)]))
    assert (found.next_producer_id, found.client_transaction_version) == (-1, 0)


@pytest.mark.parametrize("value", [b"", b"\0\2", b"\0\1\0", b"\0\1" + bytes(60)[:18] + b"\x09" + bytes(40)])
def test_damaged_values_are_corrupt_records(value: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_value("id", value)
