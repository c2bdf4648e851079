"""Whatever the bytes are, decoding gives a message or a ProtocolError, and allocates no more than they justify."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.errors import ProtocolError
from barnabas.protocol import codec
from barnabas.protocol.api import message_class
from barnabas.protocol.framing import FrameReader, decode_request, decode_response
from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse
from barnabas.protocol.messages.metadata_response import MetadataResponse
from tests.vectors.message_vectors import Vector, message_vectors

COMPILED = not codec.__file__.endswith(".py")
SAMPLES = 60 if COMPILED else 6

HUGE = [bytes.fromhex(count) for count in ("7fffffff", "0fffffff", "ffffffff0f", "8080808008", "7fff", "fffffff0")]
"""Counts and lengths that no short buffer can hold, as int32, int16 and variable-length integers."""


def decode(vector: Vector, data: bytes) -> None:
    """Decode; everything but a message or a well-formed ProtocolError fails the test."""
    error = None
    try:
        message_class(vector.message).decode(data, vector.version)
    except ProtocolError as raised:
        error = raised
    if error is not None:
        assert error.path.startswith(vector.message)
        assert 0 <= error.offset <= len(data)
        assert f"{error.path} at byte {error.offset}: " in str(error)


def positions(source: random.Random, size: int) -> list[int]:
    return source.sample(range(size), min(size, SAMPLES))


def test_any_truncation_gives_a_protocol_error() -> None:
    source = random.Random(1)
    for vector in message_vectors():
        cls = message_class(vector.message)
        for size in range(len(vector.data)) if COMPILED else positions(source, len(vector.data)):
            with pytest.raises(ProtocolError):
                cls.decode(vector.data[:size], vector.version)


def test_any_changed_byte_gives_a_message_or_a_protocol_error() -> None:
    source = random.Random(2)
    for vector in message_vectors():
        for position in positions(source, len(vector.data)):
            changed = bytearray(vector.data)
            changed[position] = source.randrange(256)
            decode(vector, bytes(changed))


def test_any_inserted_or_removed_bytes_give_a_message_or_a_protocol_error() -> None:
    source = random.Random(3)
    for vector in message_vectors():
        for position in positions(source, len(vector.data)):
            decode(vector, vector.data[:position] + source.randbytes(2) + vector.data[position:])
            decode(vector, vector.data[:position] + vector.data[position + 1 :])


def test_bytes_that_follow_the_message_give_a_protocol_error() -> None:
    for vector in message_vectors():
        with pytest.raises(ProtocolError, match="1 bytes follow the end of the message"):
            message_class(vector.message).decode(vector.data + b"\x00", vector.version)


def test_huge_counts_and_lengths_allocate_no_more_than_the_bytes_justify() -> None:
    source = random.Random(4)
    vectors = message_vectors()
    for vector in vectors:  # whatever is made once per class and version is made before measuring
        decode(vector, vector.data)
    tracemalloc.start()
    try:
        for vector in vectors[:: 1 if COMPILED else 10]:
            for position in positions(source, len(vector.data))[:8]:
                huge = source.choice(HUGE)
                data = vector.data[:position] + huge + vector.data[position + len(huge) :]
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                decode(vector, data)
                peak = tracemalloc.get_traced_memory()[1] - before
                assert peak < 20_000 + 200 * len(data), f"{vector.message} version {vector.version}: {peak} bytes"
    finally:
        tracemalloc.stop()


def test_a_count_is_believed_only_as_far_as_the_smallest_elements_would_fit() -> None:
    zeros = bytes(100_000)

    with pytest.raises(ProtocolError, match=r"brokers at byte 0: 10000 elements of at least 10 bytes cannot fit into"):
        MetadataResponse.decode((10_000).to_bytes(4, "big") + zeros[:99_000], 0)
    with pytest.raises(ProtocolError, match="cannot fit into 100000 bytes"):
        ApiVersionsResponse.decode(b"\x00\x00" + b"\xff\xff\xff\x7f" + zeros, 3)


@settings(max_examples=300, deadline=None, database=None)
@given(st.binary(max_size=64), st.integers(-1, 100), st.integers(-1, 20))
def test_any_frame_gives_a_request_or_a_protocol_error(body: bytes, key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + body
    for data in (frame, body):
        try:
            decode_request(data)
        except ProtocolError:
            pass


@settings(max_examples=300, deadline=None, database=None)
@given(st.binary(max_size=64), st.sampled_from([(1, 4), (1, 17), (3, 12), (18, 0), (18, 4), (12, 4)]))
def test_any_frame_gives_a_response_or_a_protocol_error(frame: bytes, api: tuple[int, int]) -> None:
    try:
        decode_response(*api, frame)
    except ProtocolError:
        pass


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(st.binary(max_size=50), max_size=10), st.data())
def test_frames_come_out_whole_however_the_stream_is_cut(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader, found = FrameReader(50), []

    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reader.feed(stream[start:end])
        while (frame := reader.next_frame()) is not None:
            found.append(frame)

    assert [bytes(frame) for frame in found] == frames
