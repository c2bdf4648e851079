"""Whatever bytes a client sends: the broker answers or closes that connection, and serves the others."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api import request_class
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce

BROKER = CoreBroker()
BROKER.connect().request(create("t", 2), 7)


def valid_requests() -> list[bytes]:
    found = [
        encode_request(message, version, 1, "client")
        for message, version in [
            (produce("t", batch(b"a", b"b")), 12),
            (produce("t", batch(b"a", producer=(5, 0, 0), compression="gzip")), 9),
            (fetch("t", max_wait_ms=0), 12),
            (fetch("t", session_epoch=0), 11),
            (create("u"), 6),
        ]
    ]
    for key, (_, low, high) in SERVED.items():
        found += [encode_request(request_class(key)(), version, 1, None) for version in (low, high)]
    return found


REQUESTS = valid_requests()


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(REQUESTS)))
    for _ in range(draw(st.integers(0, 4))):
        position = draw(st.integers(4, len(data) - 1))
        data[position] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    return bytes(data)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(mutated() | st.binary(max_size=40), min_size=1, max_size=4), st.integers(1, 50))
def test_a_malformed_request_costs_its_sender_at_most_the_connection(requests: list[bytes], piece: int) -> None:
    client = BROKER.connect()
    client.transport.write = lambda buffers: None
    data = b"".join(requests)
    for start in range(0, len(data), piece):
        if client.closed or not client.connection.wants_input:
            break
        client.send_bytes(data[start : start + piece])
    client.lose()
    assert not [warning for warning in BROKER.warnings if "please report this" in warning]
    BROKER.warnings.clear()
    assert BROKER.connect().request(MetadataRequest(topics=[]), 12) is not None
