"""The records of `__transaction_state` (TransactionLog): one per transactional id, the last one counts."""

from __future__ import annotations

from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
from barnabas.broker.transactions.transaction_state import EMPTY, NAMES
from barnabas.errors import CorruptRecordError, ProtocolError
from barnabas.protocol.messages.transaction_log_key import TransactionLogKey
from barnabas.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

_KEY_VERSION = 0
#: Version 1 came with transaction.version=1, which has flexible fields.
_VALUE_VERSION = 1
_PREFIX = 2


def encode_key(transactional_id: str) -> bytes:
    """Return the key of the id's records."""
    return _KEY_VERSION.to_bytes(_PREFIX, "big") + TransactionLogKey(transactional_id=transactional_id).encode(
        _KEY_VERSION
    )


def decode_key(key: bytes) -> str | None:
    """Return the transactional id; None for a kind of record that is not known here. Raises CorruptRecordError."""
    if int.from_bytes(key[:_PREFIX], "big") != _KEY_VERSION:
        return None
    try:
        return TransactionLogKey.decode(key[_PREFIX:], _KEY_VERSION).transactional_id
    except ProtocolError as error:
        raise CorruptRecordError(f"a key in the transaction log cannot be read: {error}") from error


def encode_value(metadata: TransactionMetadata) -> bytes:
    """Return the value of a record that says what `metadata` does."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(metadata.partitions):
        by_topic.setdefault(topic, []).append(index)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        next_producer_epoch=metadata.next_producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=(
            None
            if metadata.state == EMPTY
            else [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in by_topic.items()]
        ),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_transaction_version,
    )
    return _VALUE_VERSION.to_bytes(_PREFIX, "big") + value.encode(_VALUE_VERSION)


def decode_value(transactional_id: str, data: bytes) -> TransactionMetadata:
    """Return what a record's value says. Raises CorruptRecordError."""
    version = int.from_bytes(data[:_PREFIX], "big")
    low, high = TransactionLogValue.VALID_VERSIONS
    if not low <= version <= high:
        raise CorruptRecordError(f"the value for {transactional_id!r} in the transaction log has version {version}")
    try:
        value = TransactionLogValue.decode(data[_PREFIX:], version)
    except ProtocolError as error:
        raise CorruptRecordError(f"the value for {transactional_id!r} cannot be read: {error}") from error
    if value.transaction_status not in NAMES:
        raise CorruptRecordError(f"the value for {transactional_id!r} has the state {value.transaction_status}")
    return TransactionMetadata(
        transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        state=value.transaction_status,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        partitions=frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )
