"""An unforeseen error in the heartbeat thread: the application hears of it once, and the member joins again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas import Consumer, TopicPartition
from barnabas.errors import KafkaError
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster
from tests.unit.client.consumer.recorder import Recorder

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PROTOCOLS = ("classic", "consumer")


class Failing:
    """Raises in place of a method, the given number of times."""

    def __init__(self, owner: Any, method: str, times: int = 1) -> None:
        self._rest: Callable[..., Any] = getattr(owner, method)
        self._times = times
        setattr(owner, method, self)

    def __call__(self, *arguments: Any) -> Any:
        if self._times:
            self._times -= 1
            raise RuntimeError("a fault")
        return self._rest(*arguments)


def joined(cluster: ScriptedCluster, listener: Recorder, protocol: str, **settings: object) -> Consumer:
    consumer = cluster.consumer(group_id="g", enable_auto_commit=False, group_protocol=protocol, **settings)
    consumer.subscribe(["t"], listener)
    poll_until(consumer, lambda: consumer.assignment() == {T0, T1})
    listener.events.clear()
    return consumer


def poll_until(consumer: Consumer, is_done: Callable[[], bool]) -> None:
    for _ in range(20):
        if not is_done():
            consumer.poll(0.5)
    assert is_done()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_poll_raises_it_once_and_the_member_joins_again(cluster: ScriptedCluster, protocol: str) -> None:
    listener = Recorder()
    consumer = joined(cluster, listener, protocol)
    Failing(cluster._core._membership, "tick")

    cluster.sleep(1)
    with pytest.raises(KafkaError, match=r"heartbeat thread failed: RuntimeError: a fault.*joins it again"):
        consumer.poll(0)
    poll_until(consumer, lambda: listener.events[-1:] == [("assigned", [T0, T1])])

    assert listener.events == [("lost", [T0, T1]), ("assigned", [T0, T1])]
    consumer.commit({T0: 1})
    committed = consumer.committed([T0])[T0]
    assert committed is not None
    assert committed.offset == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_joins_again_under_its_name(cluster: ScriptedCluster, protocol: str) -> None:
    listener = Recorder()
    consumer = joined(cluster, listener, protocol, group_instance_id="i")
    Failing(cluster._core._membership, "tick")

    cluster.sleep(1)
    with pytest.raises(KafkaError, match="heartbeat thread failed"):
        consumer.poll(0)
    poll_until(consumer, lambda: listener.events[-1:] == [("assigned", [T0, T1])])

    assert cluster.asked(ApiKey.LEAVE_GROUP) == []
    if protocol == "classic":
        assert [join.group_instance_id for join in cluster.asked(ApiKey.JOIN_GROUP)] == ["i", "i"]
    else:
        epochs = [heartbeat.member_epoch for heartbeat in cluster.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT)]
        assert epochs.count(0) == 2
        assert epochs.index(-2) < len(epochs) - epochs[::-1].index(0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_commit_that_was_in_hand_is_answered_with_the_error(cluster: ScriptedCluster, protocol: str) -> None:
    consumer = joined(cluster, Recorder(), protocol)
    Failing(cluster._core._offsets, "tick")
    told: list[KafkaError | None] = []

    consumer.commit_async({T0: 1}, lambda offsets, error: told.append(error))
    cluster.sleep(1)
    with pytest.raises(KafkaError, match="heartbeat thread failed"):
        consumer.poll(0)
    consumer.poll(0.5)

    assert "a fault" in str(told[0])
    assert len(told) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_errors_one_after_the_other_are_told_one_by_one(cluster: ScriptedCluster, protocol: str) -> None:
    listener = Recorder()
    consumer = joined(cluster, listener, protocol)
    for _ in range(3):
        listener.events.clear()
        Failing(cluster._core._membership, "tick")
        cluster.sleep(1)
        with pytest.raises(KafkaError, match="heartbeat thread failed"):
            consumer.poll(0)
        poll_until(consumer, lambda: listener.events == [("lost", [T0, T1]), ("assigned", [T0, T1])])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_that_does_not_end_ends_the_core_and_every_call_says_so(
    cluster: ScriptedCluster, protocol: str
) -> None:
    consumer = joined(cluster, Recorder(), protocol)
    Failing(cluster._core._membership, "tick", times=1_000)

    cluster.sleep(1)

    assert cluster._core.is_done
    for call in (lambda: consumer.poll(0), lambda: consumer.poll(0), lambda: consumer.commit({T0: 1}, timeout=1)):
        with pytest.raises(KafkaError, match=r"a fault.*close it, make another"):
            call()
    consumer.close()
