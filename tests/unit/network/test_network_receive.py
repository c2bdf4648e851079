"""NetworkReceive and sizes that are announced: memory is taken for what has come, not for what was said."""

from __future__ import annotations

import tracemalloc

import pytest

from barnabas.network import network_receive
from barnabas.network.network_receive import NetworkReceive

LARGEST = (1 << 31) - 1


def feed(receive: NetworkReceive, data: bytes) -> list[bytes]:
    frames: list[bytes] = []
    while data:
        room = receive.buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        frames += map(bytes, receive.received(count))
        data = data[count:]
    return frames


def test_a_size_that_is_only_announced_takes_little_memory() -> None:
    receive = NetworkReceive(LARGEST)
    tracemalloc.start()
    try:
        assert feed(receive, LARGEST.to_bytes(4, "big") + b"x" * 100_000) == []
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 100 << 20


def test_a_frame_larger_than_its_first_buffer_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_receive, "_FIRST_TARGET_SIZE", 100_000)
    large, small = bytes(range(256)) * 4000, b"next"
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in (large, small))
    assert feed(NetworkReceive(LARGEST), data) == [large, small]


def receive_large(receive: NetworkReceive, fill: bytes) -> memoryview:
    size = 2 << 20
    receive.buffer()[:4] = size.to_bytes(4, "big")
    frames = receive.received(4)
    while not frames:
        room = receive.buffer()
        room[:] = fill * len(room)
        frames = receive.received(len(room))
    assert isinstance(frames[0], memoryview)
    return frames[0]


def test_large_frames_take_turns_in_two_buffers() -> None:
    receive = NetworkReceive(LARGEST)
    first, second = receive_large(receive, b"1"), receive_large(receive, b"2")
    buffers = [first.obj, second.obj]

    for _ in range(3):
        del first
        first = receive_large(receive, b"3")
        first, second = second, first

    assert buffers[0] is not buffers[1]
    assert {id(first.obj), id(second.obj)} == set(map(id, buffers))


def test_a_frame_that_is_still_read_is_not_written_over() -> None:
    receive = NetworkReceive(LARGEST)
    parts = [receive_large(receive, b"%d" % number)[1 << 20 :] for number in range(5)]

    assert [bytes(part[:1]) for part in parts] == [b"0", b"1", b"2", b"3", b"4"]
    assert all(set(part) == {part[0]} for part in parts)


def test_a_small_frame_lets_go_of_the_buffers_of_large_ones() -> None:
    receive = NetworkReceive(LARGEST)
    tracemalloc.start()
    try:
        receive_large(receive, b"1")
        held = tracemalloc.get_traced_memory()[0]
        feed(receive, b"\0\0\0\4next")
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held > 2 << 20 > 100_000 > left
