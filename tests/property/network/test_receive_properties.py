"""However the bytes of a connection are cut, the frames are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.errors import ProtocolError
from barnabas.network.network_receive import NetworkReceive

SIZES = st.one_of(st.integers(0, 40), st.sampled_from([65_531, 65_532, 65_533, 65_536, 70_000, 200_000]))
CUTS = st.lists(st.integers(1, 300_000), min_size=1, max_size=20)


def deliver(receive: NetworkReceive, data: bytes, cuts: list[int]) -> list[bytes]:
    """Hands the bytes over as a socket would: never more than there is room for, never more than a cut."""
    frames: list[bytes] = []
    position = 0
    turn = 0
    while position < len(data):
        room = receive.buffer()
        assert len(room) > 0
        count = min(len(room), cuts[turn % len(cuts)], len(data) - position)
        room[:count] = data[position : position + count]
        frames.extend(bytes(frame) for frame in receive.received(count))
        position += count
        turn += 1
    return frames


@given(st.lists(SIZES, max_size=8), CUTS)
def test_frames_do_not_depend_on_how_they_arrive(sizes: list[int], cuts: list[int]) -> None:
    payloads = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    data = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    if len(data) > 2000:
        cuts = [max(cut, 500) for cut in cuts]
    assert deliver(NetworkReceive(1_000_000), data, cuts) == payloads


@given(st.one_of(st.integers(-(2**31), -1), st.integers(1001, 2**31 - 1)))
def test_a_size_out_of_bounds_is_refused_before_anything_is_allocated(size: int) -> None:
    receive = NetworkReceive(1000)
    receive.buffer()[:4] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match=str(size)):
        receive.received(4)
