"""The short way of a small Produce: from the bytes of the request to the log, and to the bytes of the response.

It knows what most producers send: a request of a flexible version with one batch for one partition that can be appended
as it is, and has no other replica that must have it first. Of anything else it says so, before anything has happened,
and the handler in `produce.py` answers. So the errors are all there, and none here. The messages are those of
`barnabas.protocol.messages`, as they lie in memory.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - struct's only exception, named as one
from typing import TYPE_CHECKING

from barnabas.broker.metadata.cluster_metadata import INTERNAL_TOPICS
from barnabas.protocol.thresholds import PRODUCE_TOPIC_IDS_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.partition import Partition
    from barnabas.broker.request_context import Connection

API = 0
#: The versions that are known here: the flexible ones (KIP-482).
VERSIONS = (9, 13)

# API key, version, correlation id, size of the client id.
_HEADER = Struct(">hhih")
# No tagged fields of the header; no transactional id, acks, timeout, one topic.
_BODY = Struct(">BBhiB")
# One partition: index, what may be the two bytes of the records' size.
_PARTITION = Struct(">BiBB")
_NO_TAGS = b"\0\0\0"
_ONE_ELEMENT = 2
_ACKS = (-1, 1)
#: Unsigned varints have seven bits to a byte, the eighth says that more follow.
_MORE, _BITS = 0x80, 0x7F
_ID_SIZE = 16

# Size, correlation id, no tagged fields; one topic.
_RESPONSE = Struct(">iiBB")
# One partition: index, no error, base offset, log append time, log start offset, no record errors, no message;
# no tagged fields of partition and topic, throttle time, no tagged fields of the response.
_RESULT = Struct(">BihqqqBBBBiB")
_SIZE_FIELD = 4


def answer(broker: BrokerState, client: Connection, frame: memoryview, now_ms: int) -> bytes | None:
    """Append what a plain Produce brings; the response with its size, or None for a request that is not plain.

    A client that may not write there has not sent a plain one.
    """
    try:
        _, version, correlation_id, client_id_size = _HEADER.unpack_from(frame)
        at = _HEADER.size
        if client_id_size > 0:
            at += client_id_size
            str(frame[_HEADER.size : at], "utf-8")
        tags, transactional_id, acks, _, topics = _BODY.unpack_from(frame, at)
        if tags or transactional_id or topics != _ONE_ELEMENT or acks not in _ACKS or client_id_size < -1:
            return None
        start = at + _BODY.size
        end = start + (_ID_SIZE if version >= PRODUCE_TOPIC_IDS_FROM else frame[start])
        topic = bytes(frame[start:end])
        partitions, index, low, high = _PARTITION.unpack_from(frame, end)
        partition = _partition(broker, topic, version, index)
    except (StructError, IndexError, UnicodeDecodeError):
        return None
    if partition is None or partitions != _ONE_ELEMENT or not partition.is_sole_replica:
        return None
    if broker.authorization is not None and not broker.authorization.may_write_silently(client, partition.topic):
        return None
    start = end + _PARTITION.size
    if low < _MORE:
        start -= 1
        size = low - 1
    else:
        size = (low & _BITS | high << 7) - 1
    end = start + size
    # A size of three bytes is left to the handler: the way there costs such a request little.
    if size < 0 or (low >= _MORE and high >= _MORE) or frame[end : end + len(_NO_TAGS)] != _NO_TAGS:
        return None
    offset = broker.replica_manager.append_plain(partition, frame[start:end], now_ms)
    if offset < 0:
        return None
    log_start = partition.log.log_start_offset
    size = _RESPONSE.size - _SIZE_FIELD + len(topic) + _RESULT.size
    head = _RESPONSE.pack(size, correlation_id, 0, _ONE_ELEMENT)
    return head + topic + _RESULT.pack(_ONE_ELEMENT, index, 0, offset, -1, log_start, 1, 0, 0, 0, 0, 0)


def topic_of(answer: bytes) -> bytes:
    """Return the topic in a response of this module, as it lies there: an id, or a name after its size and one."""
    return answer[_RESPONSE.size : -_RESULT.size]


def _partition(broker: BrokerState, topic: bytes, version: int, index: int) -> Partition | None:
    """Return the partition, if it was used before and clients may write to it. `topic` is as it lies in the request."""
    if version >= PRODUCE_TOPIC_IDS_FROM:
        found = broker.metadata.topic_by_id(topic)
        name = "" if found is None else found.name
    else:
        # Compact strings have their size and one more in front; one of 127 bytes or more is not plain.
        name = str(topic[1:], "utf-8") if 0 < topic[0] < _MORE else ""
    return None if name in INTERNAL_TOPICS else broker.replica_manager.used_partition(name, index)
