"""What takes long, on virtual time: a broker that is gone for minutes, a machine that slept, clocks that jump."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import Consumer
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import NODE, ScriptedCluster


class Reader:
    """A member of a group that has read "0"; it must read every later number once."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        cluster.topics = {"t": 1}
        cluster.append("t", 0, b"0")
        self.consumer: Consumer[Any, Any] = cluster.consumer("t", group_id="g", auto_offset_reset="earliest")
        self.read: list[int] = []
        self.poll(5)
        assert self.read == [0]

    def poll(self, seconds: float) -> None:
        deadline = self.cluster.now + seconds
        while self.cluster.now < deadline:
            self.read += [int(record.value) for record in self.consumer.poll(deadline - self.cluster.now)]

    def selectors(self) -> list[Any]:
        return [self.cluster.app_selector, self.cluster.group_selector]


@pytest.fixture
def reader(cluster: ScriptedCluster) -> Reader:
    return Reader(cluster)


@pytest.mark.parametrize("seconds", [60, 300])
def test_a_broker_that_was_gone_is_found_again_and_was_not_knocked_at_all_the_time(
    cluster: ScriptedCluster, reader: Reader, seconds: int
) -> None:
    def go() -> None:
        for selector in reader.selectors():
            selector.refusing.add(NODE[2])
            for node_id in range(-1, 10):
                selector.break_connection(node_id)

    def come_back() -> None:
        for selector in reader.selectors():
            selector.refusing.clear()
        cluster.append("t", 0, b"1", b"2")

    before = [len(selector.connects) for selector in reader.selectors()]
    go()
    cluster.at(seconds, come_back)
    reader.poll(seconds + 10)
    assert reader.read == [0, 1, 2]
    for selector, connects in zip(reader.selectors(), before, strict=True):
        # reconnect.backoff.max.ms is a second, from which it differs by a fifth, for each of two addresses.
        assert len(selector.connects) - connects < 2 * seconds / 0.8 + 20


def test_a_machine_that_slept_for_an_hour_goes_on_where_it_was(cluster: ScriptedCluster, reader: Reader) -> None:
    cluster.now += 3600
    cluster.append("t", 0, b"1", b"2")
    reader.poll(30)
    assert reader.read == [0, 1, 2]
    assert len(cluster.asked(ApiKey.JOIN_GROUP)) <= 3


@pytest.mark.parametrize("seconds", [86_400, -86_400])
def test_the_wall_clock_may_jump(
    cluster: ScriptedCluster, reader: Reader, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.append("t", 0, b"1")
    reader.poll(1)
    requests = len(cluster.requests)
    reader.poll(10)
    usual = len(cluster.requests) - requests
    clock = cluster.wall_clock_ms
    monkeypatch.setattr(cluster, "wall_clock_ms", lambda: clock() + seconds * 1000)
    cluster.append("t", 0, b"2")
    requests = len(cluster.requests)
    reader.poll(10)
    assert reader.read == [0, 1, 2]
    assert len(cluster.requests) - requests <= usual + 2
