"""Frames of every API: the broker answers each or closes that connection, and goes on to serve others.

The first byte of an input says how: checksums of records are not looked at (1), pieces are bytes of the connection and
not whole frames (2), the broker is killed at the end and started again on its files (4). Pieces follow.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from barnabas.broker.handlers.registry import SERVED, handler_for
from barnabas.broker.log import log_validator
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.metadata.metadata_store import Operation
from barnabas.protocol.api import request_class, request_header_version
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.request_header import RequestHeader
from barnabas.records.batch_header import check_crc
from tests.support.core_broker import DATA, CoreBroker, batch, create, fetch, produce
from tests.unit.broker.transactions.wire import WireProducer
from tests.vectors.message_vectors import message_vectors
from tools.fuzz.disk import disk_with, files_of
from tools.fuzz.pieces import join, split

for _key in SERVED:
    # Each is loaded with its first request otherwise.
    handler_for(_key)

_NO_CHECKSUMS, _STREAM, _CRASH = 1, 2, 4
_MOST_FRAMES = 8


class _Prepared(NamedTuple):
    settings: dict[str, Any]
    files: dict[str, bytes]
    metadata: list[Operation]


@cache
def _prepared() -> _Prepared:
    """Return a broker with two topics, records, a committed offset and an open transaction, that was stopped."""
    settings = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
    broker = CoreBroker(settings)
    client = broker.connect()
    client.request(create("t", 2), 7)
    client.request(create("compacted", cleanup_policy="compact"), 7)
    client.request(produce("t", batch(b"a", b"b")), 12)
    client.request(produce("t", batch(b"c", producer=(5, 0, 0), compression="gzip")), 12)
    producer = WireProducer(client, "tx")
    producer.init()
    producer.send("t", b"open", partition=1)
    producer.commit_offset("g", "t", 1)
    broker.stop()
    metadata = [(change.key, change.value) for change in broker.store.read().changes]
    return _Prepared(settings, files_of(broker.filesystem, DATA), metadata)


def _fresh() -> CoreBroker:
    prepared = _prepared()
    store = MemoryStore()
    store.apply(prepared.metadata)
    return CoreBroker(prepared.settings, disk_with(prepared.files), store, seed=2)


def run(data: bytes) -> None:
    """See the module."""
    flags = data[0] if data else 0
    if flags & _NO_CHECKSUMS:
        log_validator.check_crc = lambda *_: None
    try:
        _serve(data, flags)
    finally:
        log_validator.check_crc = check_crc


def _serve(data: bytes, flags: int) -> None:
    broker = _fresh()
    client = broker.connect()
    client.transport.write = lambda buffers: None
    for piece in split(data[1:], _MOST_FRAMES):
        if client.closed:
            client = broker.connect()
            client.transport.write = lambda buffers: None
        _send(client, piece if flags & _STREAM else len(piece).to_bytes(4, "big") + piece)
        broker.node.core.settle(broker.instant)
        broker.advance(0.01)
    _let_pass(broker)
    client.lose()
    if flags & _CRASH:
        _let_pass(broker.crashed())


def _let_pass(broker: CoreBroker) -> None:
    for _ in range(3):
        broker.now += 20
        broker.node.core.tick(broker.instant)
    faults = [warning for warning in broker.warnings if "please report this" in warning]
    assert not faults, faults[0]
    assert broker.connect().request(MetadataRequest(topics=[]), 12) is not None


def _send(client: Any, data: bytes) -> None:
    connection = client.connection
    while data and connection.wants_input and not client.closed:
        space = connection.buffer.space()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        data = data[count:]
        connection.received(count, client.broker.instant)


def _frame(key: int, version: int, body: bytes) -> bytes:
    return RequestHeader(key, version, 1, "c").encode(request_header_version(key, version)) + body


def seeds() -> list[bytes]:
    """Every request in every version that is served, alone, and what clients do in turn."""
    by_name = {request_class(key).NAME: (key, low, high) for key, (_, low, high) in SERVED.items()}
    found = []
    for vector in message_vectors():
        key, low, high = by_name.get(vector.message, (-1, 0, -1))
        if low <= vector.version <= high:
            found.append(b"\0" + join([_frame(key, vector.version, vector.data)]))
    for records in (batch(b"x", b"y", compression="zstd"), batch(b"z", producer=(9, 0, 0), compression="lz4")):
        requests = [(create("u"), 7), (produce("u", records), 12), (fetch("u", session_epoch=0), 12)]
        found.append(b"\5" + join(encode_request(message, version, 1, "c")[4:] for message, version in requests))
        found.append(b"\3" + join(encode_request(message, version, 1, "c") for message, version in requests))
    return found
