"""Whatever happens to a member of the consumer protocol, it acknowledges what its application has, and ends in step."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas import TopicPartition
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.errors import (
    CoordinatorLoadInProgressError,
    FencedMemberEpochError,
    NotCoordinatorError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster, topic_id

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
PARTITIONS = [TopicPartition("t", number) for number in range(3)] + [TopicPartition("late", 0)]
NAMES = {topic_id(name): name for name in ("t", "late")}
ERRORS = [UnknownMemberIdError, FencedMemberEpochError, NotCoordinatorError, CoordinatorLoadInProgressError]


class Owned(ConsumerRebalanceListener):
    """What the application has, going by what it is told."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        assert not self.partitions & set(partitions)
        self.partitions |= set(partitions)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        assert self.partitions >= set(partitions)
        self.partitions -= set(partitions)


class WatchedCluster(ScriptedCluster):
    """Compares every acknowledgement with what the application has at that moment."""

    def __init__(self, owned: Owned) -> None:
        super().__init__()
        self._owned = owned

    def _consumer_group_heartbeat(self, request: Any) -> Any:
        if request.topic_partitions is not None and request.member_epoch >= 0:
            told = {
                TopicPartition(NAMES[entry.topic_id], number)
                for entry in request.topic_partitions
                for number in entry.partitions
            }
            assert told == self._owned.partitions
        return super()._consumer_group_heartbeat(request)


STEPS = st.one_of(
    st.tuples(st.just("want"), st.frozensets(st.sampled_from(PARTITIONS))),
    st.tuples(st.just("poll"), st.sampled_from([0.0, 0.05, 1.0, 6.0])),
    st.tuples(st.just("sleep"), st.sampled_from([0.05, 3.0, 12.0])),
    st.tuples(st.just("heartbeat fails"), st.sampled_from(ERRORS)),
    st.tuples(st.just("commit"), st.sampled_from([None, StaleMemberEpochError, UnknownMemberIdError])),
    st.tuples(st.just("create late"), st.none()),
)


def take(cluster: ScriptedCluster, consumer: Any, step: tuple[str, Any]) -> None:
    kind, value = step
    if kind == "want":
        cluster.wanted = set(value)
    elif kind == "poll":
        consumer.poll(value)
    elif kind == "sleep":
        cluster.sleep(value)
    elif kind == "heartbeat fails":
        cluster.errors.setdefault(HEARTBEAT, deque()).append(value.code)
    elif kind == "commit":
        if value is not None:
            cluster.errors[ApiKey.OFFSET_COMMIT] = deque([value.code])
        consumer.commit_async({PARTITIONS[0]: 1})
    else:
        cluster.topics["late"] = 1


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, max_size=14), st.booleans())
def test_a_member_acknowledges_what_its_application_has_and_ends_with_what_it_shall_have(
    steps: list[tuple[str, Any]], auto_commit: bool
) -> None:
    owned = Owned()
    cluster = WatchedCluster(owned)
    cluster.topics = {"t": 3}
    cluster.wanted = {PARTITIONS[0]}
    consumer = cluster.consumer(
        group_id="g", group_protocol="consumer", enable_auto_commit=auto_commit, max_poll_interval_ms=10_000
    )
    consumer.subscribe(["t", "late"], owned)
    for step in steps:
        take(cluster, consumer, step)
        assert consumer.assignment() == owned.partitions

    cluster.topics["late"] = 1
    cluster.errors.clear()
    for _ in range(20):
        consumer.poll(1)

    assert consumer.assignment() == owned.partitions == cluster.wanted
    assert consumer.group_metadata().generation_id == cluster.member_epoch
    consumer.close()
    assert owned.partitions == set()
    assert cluster.asked(HEARTBEAT)[-1].member_epoch == -1
