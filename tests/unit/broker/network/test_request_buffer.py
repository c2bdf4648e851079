from __future__ import annotations

import pytest

from barnabas.broker.network.request_buffer import SHARED_BUFFER_SIZE, RequestBuffer, RequestMemory
from barnabas.errors import InvalidRequestError


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def put(buffer: RequestBuffer, data: bytes) -> int:
    space = buffer.space()
    count = min(len(space), len(data))
    space[:count] = data[:count]
    buffer.filled(count)
    return count


def frames_of(data: bytes, piece: int, max_size: int = 1 << 24) -> list[bytes]:
    buffer = RequestBuffer(max_size)
    found = []
    position = 0
    while position < len(data):
        position += put(buffer, data[position : position + piece])
        while (frame := buffer.next_frame()) is not None:
            found.append(bytes(frame))
    return found


@pytest.mark.parametrize("piece", [1, 3, 1000, 70_000, 10_000_000])
def test_frames_come_out_whole_however_the_bytes_come_in(piece: int) -> None:
    payloads = [b"", b"a", b"b" * 500, b"c" * (SHARED_BUFFER_SIZE - 4), b"d" * SHARED_BUFFER_SIZE, b"e" * 300_000, b"f"]
    if piece < 1000:
        payloads = [payload[:5000] for payload in payloads]
    assert frames_of(b"".join(map(framed, payloads)), piece) == payloads


def test_a_frame_can_be_written_to() -> None:
    buffer = RequestBuffer(1000)
    put(buffer, framed(b"abc"))
    frame = buffer.next_frame()
    assert frame is not None
    frame[0] = ord("x")
    assert bytes(frame) == b"xbc"


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_an_impossible_size_is_refused_before_anything_is_allocated(size: int) -> None:
    buffer = RequestBuffer(1000)
    put(buffer, size.to_bytes(4, "big", signed=True))
    with pytest.raises(InvalidRequestError, match=str(abs(size))):
        buffer.next_frame()


def test_it_takes_no_more_than_its_size_while_nobody_takes_frames_out() -> None:
    buffer = RequestBuffer(1 << 20)
    data = framed(b"x" * 100) * 10_000
    taken = 0
    while buffer.has_space:
        taken += put(buffer, data[taken:])
    assert taken == SHARED_BUFFER_SIZE
    assert buffer.next_frame() is not None
    assert buffer.has_space


def test_a_large_frame_ends_where_it_ends() -> None:
    buffer = RequestBuffer(1 << 20)
    data = framed(b"x" * 200_000) + framed(b"next")
    position = put(buffer, data)
    assert buffer.next_frame() is None
    while buffer.has_space:
        position += put(buffer, data[position:])
    assert position == 200_004
    assert buffer.next_frame() == b"x" * 200_000
    put(buffer, data[position:])
    assert buffer.next_frame() == b"next"


def whole_frame(buffer: RequestBuffer, payload: bytes) -> memoryview:
    data = framed(payload)
    while (frame := buffer.next_frame()) is None:
        data = data[put(buffer, data) :]
    return frame


def test_large_frames_get_the_memory_of_those_that_are_over() -> None:
    memory = RequestMemory()
    buffers = [RequestBuffer(1 << 24, memory=memory) for _ in range(3)]
    used = []
    for payload in (b"a" * 300_000, b"b" * 200_000, b"c" * 310_000):
        for buffer in buffers:
            frame = whole_frame(buffer, payload)
            assert bytes(frame) == payload
            used.append(frame.obj)
            buffer.release()

    # One for what comes before the size of a new connection's claims is trusted, one for all of it.
    assert len(set(map(id, used))) <= 2


def test_a_large_frame_that_is_in_use_keeps_its_memory() -> None:
    memory = RequestMemory()
    one, other = RequestBuffer(1 << 24, memory=memory), RequestBuffer(1 << 24, memory=memory)
    frame = whole_frame(one, b"a" * 300_000)
    assert whole_frame(other, b"b" * 300_000).obj is not frame.obj
    assert bytes(frame) == b"a" * 300_000


def test_not_much_memory_is_kept_for_large_frames() -> None:
    memory = RequestMemory()
    buffers = [RequestBuffer(1 << 24, memory=memory) for _ in range(10)]
    used = [whole_frame(buffer, bytes(6_000_000 if buffer is buffers[0] else 100_000)).obj for buffer in buffers]
    for buffer in buffers:
        buffer.release()

    again = [memory.buffer(90_000).obj for _ in buffers]

    assert sum(one is other for one in used for other in again) == 2
    assert all(one is not used[0] for one in again)
