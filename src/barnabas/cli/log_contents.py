"""Keys and values of records on disk as text; those of Kafka's own topics as the messages that they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from barnabas.cli.record_format import put_bytes
from barnabas.errors import KafkaError
from barnabas.protocol import json_view
from barnabas.records.record_batch import Record

#: The messages in __consumer_offsets by the type that stands in front of the key, as in Kafka's schemas.
_GROUP_RECORDS = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
}
_TRANSACTION_RECORDS = {0: "TransactionLog"}
_MESSAGES = {"__consumer_offsets": _GROUP_RECORDS, "__transaction_state": _TRANSACTION_RECORDS}


def contents(path: str) -> Callable[[Record], dict[str, Any]]:
    """Return what shows key, value and headers of a record in this file."""
    topic = os.path.basename(os.path.dirname(os.path.abspath(path))).rpartition("-")[0]
    messages = _MESSAGES.get(topic)
    if messages is None:
        return _plain
    return lambda record: _message(record, messages)


def _plain(record: Record) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    put_bytes(shown, "key", record.key)
    put_bytes(shown, "value", record.value)
    shown["headers"] = []
    for name, value in record.headers:
        header: dict[str, Any] = {"key": name}
        put_bytes(header, "value", value)
        shown["headers"].append(header)
    return shown


def _message(record: Record, messages: dict[int, str]) -> dict[str, Any]:
    if record.key is None or len(record.key) < 2:
        return _plain(record)
    name = messages.get(int.from_bytes(record.key[:2], "big"))
    try:
        if name is None:
            return _plain(record)
        key = json_view.from_bytes(f"{name}Key", 0, record.key[2:])
        value = None
        if record.value is not None:
            value = json_view.from_bytes(f"{name}Value", int.from_bytes(record.value[:2], "big"), record.value[2:])
    except KafkaError:
        # A marker, or from a newer Kafka: as bytes it is still there.
        return _plain(record)
    return {"type": name, "key": key, "value": value, "headers": []}
