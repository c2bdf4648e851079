"""A broker that comes back: what it may do before its cluster knows of this life of it."""

from __future__ import annotations

import errno
from collections.abc import Callable

from barnabas import errors
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.cluster_member import MemberBroker, broker, change, registration, topic
from tests.support.core_broker import batch, produce

FLIGHTS = bytes(15) + b"\x01"
FLIGHT = TopicPartition("flights", 0)


def test_a_broker_leads_nothing_before_the_metadata_have_this_life_of_it() -> None:
    """It may come back before its session is over, without what it had not flushed: what it led is another's by then.

    In its old epoch it would write other records at offsets that its followers have, and they would cut theirs.
    """
    others = broker(1, host="one")
    last_life = registration(3, "three", 9092)
    last_life.broker_epoch = 7
    found = MemberBroker({}, *others, last_life, *topic("flights", FLIGHTS, [3, 1]), registers=False)
    client = found.connect()
    answer = client.request(produce("flights", batch(b"x"), acks=1), 11)
    assert answer.responses[0].partition_responses[0].error_code == errors.NotLeaderOrFollowerError.code
    found.answer("heartbeat", BrokerRegistrationResponse(broker_epoch=30))
    assert found.asked("heartbeat").want_fence
    answer = client.request(produce("flights", batch(b"x"), acks=1), 11)
    assert answer.responses[0].partition_responses[0].error_code == errors.NotLeaderOrFollowerError.code
    found.tell(registration(3, "three", 9092), change(FLIGHTS, 0, leader=1, isr=[1]))
    partition = found.state.replica_manager.partition("flights", 0)
    assert (partition.is_leader, partition.leader_id, partition.leader_epoch) == (False, 1, 1)
    found.now += 1
    assert not found.asked("heartbeat").want_fence


def test_a_broker_whose_registration_is_answered_late_takes_its_roles_with_the_answer() -> None:
    found = MemberBroker({}, *broker(1), *topic("flights", FLIGHTS, [3, 1]), registers=False)
    found.tell(registration(3, "three", 9092))
    assert found.state.replica_manager.used_partition("flights", 0) is None
    found.answer("heartbeat", BrokerRegistrationResponse(broker_epoch=30))
    assert found.state.replica_manager.partition("flights", 0).is_leader


def member_without_its_replica(prepare: Callable[[MemberBroker], None] = lambda found: None) -> MemberBroker:
    """A broker that had a replica when its logs were opened, and has it no more by the first metadata it goes by."""
    replicas = [*broker(1, host="one"), *topic("flights", FLIGHTS, [3, 1])]
    last = MemberBroker({}, *replicas)
    last.filesystem.crash()
    found = MemberBroker({}, *replicas, filesystem=last.filesystem, registers=False)
    assert found.node.logs.get_log(FLIGHT) is not None
    found.tell(change(FLIGHTS, 0, replicas=[1], isr=[1], leader=1))
    assert found.node.logs.get_log(FLIGHT) is not None, "it is not known whether that is of this life"
    prepare(found)
    found.answer("heartbeat", BrokerRegistrationResponse(broker_epoch=30))
    found.tell(registration(3, "three", 9092))
    return found


def test_a_log_whose_replica_was_moved_away_while_the_broker_started_is_set_aside() -> None:
    found = member_without_its_replica()
    assert found.node.logs.get_log(FLIGHT) is None
    assert [text for text in found.warnings if "was moved to other brokers" in text]


def test_a_disk_that_cannot_set_it_aside_is_told_of_and_keeps_the_broker_from_nothing() -> None:
    def no_renaming(operation: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "broken", path) if operation == "rename" and "flights" in path else None

    def prepare(found: MemberBroker) -> None:
        found.filesystem.fail = no_renaming

    found = member_without_its_replica(prepare)
    assert [text for text in found.warnings if "is of no replica, and stays" in text and "broken" in text]
    found.tell(*topic("delays", bytes(15) + b"\x02", [3]))
    assert found.state.replica_manager.partition("delays", 0).is_leader
