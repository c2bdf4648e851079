"""Whatever API is asked for whatever it can ask: the request loop does not wait for a slow disk (rule 5 of the room).

The APIs are those that the broker serves, the requests are made from their schema; `test_loop_and_disk` has those that
are known to use the disk, with more to it.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.handlers.registry import SERVED
from barnabas.broker.transactions.marker import Marker
from barnabas.broker.transactions.partition_markers import PartitionMarkers
from tests.support.core_broker import CoreBroker
from tests.support.worst_cases import BIG_TOPIC, STRINGS, Generator, everything
from tests.unit.broker.test_loop_and_disk import (
    OF_THE_CACHE,
    PARTITIONS,
    QUICK,
    REPEATED,
    SETTINGS,
    OneDisk,
    started_anew,
    used,
)

#: Elements of each array of a request.
FEW = 3


@pytest.fixture
def disk() -> OneDisk:
    return OneDisk()


@pytest.fixture
def broker(disk: OneDisk, monkeypatch: pytest.MonkeyPatch) -> CoreBroker:
    """A broker that was started anew; what requests name is the topic with records."""
    for field in [field for field, named in STRINGS.items() if named == BIG_TOPIC]:
        monkeypatch.setitem(STRINGS, field, "old")
    first = used(disk, SETTINGS)
    first.stop()
    return started_anew(first, disk)


@pytest.mark.parametrize("key", SERVED, ids=lambda key: SERVED[key][0])
def test_no_api_holds_the_loop_while_the_disk_works(key: int, broker: CoreBroker, disk: OneDisk) -> None:
    version = SERVED[key][2]
    topic = broker.node.metadata.topic("old")
    assert topic is not None
    paths = list(Generator(key, version, topic.id).paths()) or [""]
    requests = [Generator(key, version, topic.id, path, FEW, same=False).request() for path in paths]
    for request in [*requests, everything(key, version)]:
        disk.on_loop.clear()
        for _ in range(REPEATED):
            client = broker.connect()
            client.send(request, version)
            # Some wait for others, or for a time: their answers are not waited for.
            for _ in range(20):
                broker.node.core.settle(broker.instant)
                disk.drain()
                broker.advance(0)
            client.lose()
        unbound = set(disk.on_loop) - QUICK
        assert not unbound, "flushes, cold reads and new directories belong beside the loop"
        assert sum(disk.on_loop.values()) <= OF_THE_CACHE * PARTITIONS * REPEATED


def test_a_marker_after_a_start_does_not_hold_the_loop(broker: CoreBroker, disk: OneDisk) -> None:
    markers = PartitionMarkers(broker.state.replica_manager, lambda: broker.state.group_coordinator)
    answers: list[Any] = []

    for index in range(PARTITIONS):
        markers.write(Marker(("old", index), 7, 0, True, 0, 1), broker.instant, answers.append)
    markers.write(Marker(("no such topic", 0), 7, 0, True, 0, 1), broker.instant, answers.append)
    for _ in range(20):
        broker.node.core.settle(broker.instant)
        disk.drain()
        broker.advance(0)

    assert [type(answer).__name__ for answer in answers].count("NoneType") == PARTITIONS
    assert [type(answer).__name__ for answer in answers].count("UnknownTopicOrPartitionError") == 1
    assert not set(disk.on_loop) - QUICK
