"""A broker that goes by another image of the metadata, after an exception before any line of that.

It reads all metadata anew then, and says that it takes part in the cluster again: it has to have done all by then that
it had not, as a broker has that met no fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.protocol.message import Message
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from tests.support.cluster_member import MemberBroker, broker, change, topic
from tests.support.core_broker import batch, produce
from tests.support.line_errors import LineErrors

ROOMS = tuple(
    f"broker/{name}"
    for name in (
        "membership/broker_metadata_publisher", "membership/cluster_member", "membership/coordinator_elections",
        "membership/gone_topics", "membership/kraft_control", "metadata/image_store", "raft/metadata_loader",
        "replica_manager",
    )
)  # fmt: skip
#: How many places are tried in the short form; the long one tries each line, when it first runs and when it last does.
PLACES = 25
FLIGHTS, DELAYS, GONE, ANOTHER, OFFSETS, LATER = (bytes(15) + bytes([number]) for number in range(1, 7))
NAMES = ("flights", "delays", "gone", "later", GROUP_METADATA_TOPIC)

#: What the metadata log has, one answer after the other.
STEPS: Sequence[Sequence[Message]] = (
    [*broker(1), *broker(2), *topic("flights", FLIGHTS, [3, 1]), *topic("delays", DELAYS, [1, 3])],
    [*topic("gone", GONE, [3], [3]), *topic(GROUP_METADATA_TOPIC, OFFSETS, [1, 3])],
    [change(OFFSETS, leader=3, isr=[3]), ConfigRecord(2, "flights", "retention.ms", "77")],
    [change(FLIGHTS, leader=1), change(DELAYS, leader=3)],
    [RemoveTopicRecord(topic_id=GONE), *topic("gone", ANOTHER, [3])],
    [change(OFFSETS, leader=1, isr=[1, 3])],
    [change(OFFSETS, leader=3, isr=[3])],
    [RemoveTopicRecord(topic_id=FLIGHTS)],
    [*topic("later", LATER, [3, 2]), change(OFFSETS, leader=1)],
)


class Life:
    """A broker that hears of all that, up to a step."""

    def __init__(self, errors: LineErrors) -> None:
        self.errors = errors
        self.broker = MemberBroker()
        self.told: list[Message] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]

    def tell(self, records: Sequence[Message]) -> None:
        self.told += records
        if self.broker.control.problem is None:
            with self.errors.watching():
                self.broker.tell(*records)
        if self.broker.control.problem is not None:
            self.read_anew()
        self.broker.advance(0.1)
        self.commit()

    def commit(self) -> None:
        """Commit offsets of a group, where this broker coordinates it."""
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topics = [OffsetCommitRequestTopic(name=name, partitions=[part]) for name in ("flights", "delays")]
        request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)
        self.broker.connect().request(request, 8)

    def read_anew(self) -> None:
        """Have it read all, as it does by itself after a while."""
        found = self.broker
        found.now += 2.0
        found.offset = 0
        found.tell(*self.told)
        assert found.control.problem is None, (found.warnings, self.errors.place)

    def is_served(self, name: str) -> Any:
        """Return the error of a produce request, or what is told of a group whose offsets are asked for."""
        client = self.broker.connect()
        if name == GROUP_METADATA_TOPIC:
            response: Any = client.request(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8)
            group = response.groups[0]
            return group.error_code, sorted(
                (topic.name, topic.partitions[0].committed_offset) for topic in group.topics
            )
        response = client.request(produce(name, batch(b"x"), acks=1), 9)
        return response.responses[0].partition_responses[0].error_code

    def state(self) -> dict[str, Any]:
        """What a broker goes by, as clients see it and by its roles."""
        found = self.broker
        manager, metadata = found.node.state.replica_manager, found.node.state.metadata
        states: dict[str, Any] = {}
        for name in NAMES:
            known = metadata.topic(name)
            roles = [manager.used_partition(name, index) for index in (0, 1)]
            states[name] = (
                None if known is None else (known.id, dict(known.configs)),
                [None if one is None else (one.topic_id, one.is_leader, one.leader_epoch) for one in roles],
                self.is_served(name),
            )
        return states


def run(errors: LineErrors, steps: int) -> Life:
    life = Life(errors)
    for records in STEPS[:steps]:
        life.tell(records)
    return life


def check_places(most: int, offset: int) -> None:
    for steps in range(1, len(STEPS) + 1):
        run(LineErrors(ROOMS), steps)
        counting = LineErrors(ROOMS)
        expected = run(counting, steps).state()
        before = LineErrors(ROOMS)
        run(before, steps - 1)
        places = [at for at in counting.places if at >= before.count]
        for at in places[offset :: max(1, len(places) * len(STEPS) // most)]:
            errors = LineErrors(ROOMS, at, lambda: RuntimeError("planted"))
            life = run(errors, steps)
            assert errors.place, at
            assert life.state() == expected, (steps, errors.place)


def test_whatever_is_raised_in_publishing_all_is_done_when_the_metadata_were_read_anew() -> None:
    check_places(PLACES, 3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_at_every_line() -> None:
    check_places(1_000_000, 0)
