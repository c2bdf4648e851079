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
