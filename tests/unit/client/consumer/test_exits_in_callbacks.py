"""`sys.exit()` and Ctrl-C in the application's code that a consumer calls: the call raises it, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas import TopicPartition
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster

RECORDS = [b"%d" % number for number in range(12)]
EXITS = (SystemExit, KeyboardInterrupt)
PROTOCOLS = ("classic", "consumer")


class Once:
    """Raises the first time that it is asked to."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error
        self.has_raised = False

    def __call__(self) -> None:
        if not self.has_raised:
            self.has_raised = True
            raise self._error("in the application's code")


class Hooks:
    """Code of the application that raises in the one of its places that has this name."""

    def __init__(self, place: str, once: Once) -> None:
        self._place = place
        self._once = once

    def _reached(self, place: str) -> None:
        if place == self._place:
            self._once()

    def on_partitions_assigned(self, partitions: Any) -> None:
        self._reached("assigned")

    def on_partitions_revoked(self, partitions: Any) -> None:
        self._reached("revoked")

    def on_partitions_lost(self, partitions: Any) -> None:
        self._reached("lost")

    def on_consume(self, records: Any) -> Any:
        self._reached("on_consume")
        return records

    def on_commit(self, offsets: Any) -> None:
        self._reached("on_commit")

    def deserialize_value(self, data: bytes) -> bytes:
        if data == b"7":
            self._reached("value")
        return data

    def deserialize_key(self, data: bytes) -> bytes:
        return data

    def committed(self, offsets: Any, error: Any) -> None:
        self._reached("callback")


def consumer_of(cluster: ScriptedCluster, hooks: Hooks, protocol: str) -> Any:
    cluster.append("t", 0, *RECORDS)
    consumer = cluster.consumer(
        group_id="g", enable_auto_commit=False, auto_offset_reset="earliest", max_poll_records=5,
        group_protocol=protocol, interceptor_classes=[hooks], value_deserializer=hooks.deserialize_value,
        max_poll_interval_ms=15_000,
        **({"session_timeout_ms": 10_000} if protocol == "classic" else {}),
    )  # fmt: skip
    consumer.subscribe(["t"], hooks)
    return consumer


def read_all(consumer: Any, raised: list[BaseException]) -> list[bytes]:
    found: list[bytes] = []
    for _ in range(60):
        try:
            found += [record.value for record in consumer.poll(1.0)]
        except EXITS as error:
            raised.append(error)
        if len(found) >= len(RECORDS):
            break
    return found


def has_left(cluster: ScriptedCluster) -> bool:
    gone = [one for one in cluster.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT) if one.member_epoch < 0]
    return bool(cluster.asked(ApiKey.LEAVE_GROUP) or gone)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("error", EXITS)
@pytest.mark.parametrize("place", ["assigned", "on_consume", "value"])
def test_in_a_poll_the_next_poll_hands_out_what_that_one_did_not(
    place: str, error: type[BaseException], protocol: str
) -> None:
    cluster = ScriptedCluster()
    consumer = consumer_of(cluster, Hooks(place, Once(error)), protocol)
    raised: list[BaseException] = []

    assert read_all(consumer, raised) == RECORDS
    assert [type(one) for one in raised] == [error]
    consumer.commit({TopicPartition("t", 0): 12}, timeout=5)
    consumer.close()
    assert has_left(cluster)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("error", EXITS)
@pytest.mark.parametrize(
    ("place", "commit"),
    [
        ("on_commit", lambda consumer, hooks: consumer.commit(timeout=5)),
        ("callback", lambda consumer, hooks: consumer.commit_async(callback=hooks.committed)),
    ],
)
def test_when_a_commit_is_answered_the_commit_stands_and_the_next_one_works(
    place: str, commit: Callable[[Any, Hooks], object], error: type[BaseException], protocol: str
) -> None:
    cluster = ScriptedCluster()
    hooks = Hooks(place, once := Once(error))
    consumer = consumer_of(cluster, hooks, protocol)
    raised: list[BaseException] = []
    assert read_all(consumer, raised) == RECORDS

    for call in (lambda: commit(consumer, hooks), lambda: consumer.poll(1.0), lambda: consumer.poll(1.0)):
        try:
            call()
        except EXITS as exit_:
            raised.append(exit_)

    assert once.has_raised
    assert [type(one) for one in raised] == [error]
    assert cluster.committed[TopicPartition("t", 0)][0] == 12
    consumer.commit({TopicPartition("t", 0): 5}, timeout=5)
    assert cluster.committed[TopicPartition("t", 0)][0] == 5
    consumer.close()
    assert has_left(cluster)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("error", EXITS)
@pytest.mark.parametrize("last", ["unsubscribe", "close"])
def test_in_the_last_revocation_the_member_leaves_all_the_same(
    last: str, error: type[BaseException], protocol: str
) -> None:
    cluster = ScriptedCluster()
    consumer = consumer_of(cluster, Hooks("revoked", Once(error)), protocol)
    assert read_all(consumer, []) == RECORDS

    with pytest.raises(error, match="in the application's code"):
        getattr(consumer, last)()

    consumer.close()
    for _ in range(50):
        cluster.sleep(0.1)
    assert has_left(cluster)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("error", EXITS)
def test_when_partitions_were_lost_the_member_joins_again(error: type[BaseException], protocol: str) -> None:
    cluster = ScriptedCluster()
    consumer = consumer_of(cluster, Hooks("lost", once := Once(error)), protocol)
    assert read_all(consumer, []) == RECORDS
    cluster.sleep(20)  # longer than max.poll.interval.ms

    raised: list[BaseException] = []
    found = read_all(consumer, raised)

    assert once.has_raised
    assert [type(one) for one in raised] == [error]
    assert found == RECORDS
    consumer.close()
    assert has_left(cluster)
