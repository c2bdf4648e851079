"""A member of a cluster with several data directories: what its controller is told of them (KIP-858)."""

from __future__ import annotations

import errno
from typing import Any

from barnabas.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.cluster_member import MemberBroker, broker, change, topic
from tests.support.core_broker import batch, produce
from tests.unit.broker.test_log_directories import DIRECTORIES

FLIGHTS = bytes(15) + b"\x01"
FIRST, SECOND = DIRECTORIES


def member() -> MemberBroker:
    others = [*broker(1, host="one"), *broker(2, host="two"), *broker(3, host="three")]
    return MemberBroker({}, *others, *topic("flights", FLIGHTS, [3], [3]), directories=DIRECTORIES)


def ids(found: MemberBroker) -> list[bytes]:
    return [state.manager.log_directory.directory_id for state in found.node.logs.directories]


def told(request: Any) -> dict[bytes, list[int]]:
    """Directory id → partitions, of a request for assignments."""
    return {
        one.id: sorted(part.partition_index for of in one.topics for part in of.partitions)
        for one in request.directories
    }


def test_where_each_replica_lies_is_told_once() -> None:
    found = member()
    first, second = ids(found)
    request = found.answer("alter-partition", AssignReplicasToDirsResponse())
    assert (request.broker_id, request.broker_epoch, told(request)) == (3, 30, {first: [0], second: [1]})
    found.tell(change(FLIGHTS, 0, directories=[first]), change(FLIGHTS, 1, directories=[second]))
    assert found.asked("alter-partition") is None


def test_it_is_told_again_where_the_controller_did_not_take_it() -> None:
    found = member()
    found.answer("alter-partition", AssignReplicasToDirsResponse(error_code=77))
    found.advance(1)
    assert len(told(found.asked("alter-partition"))) == 2


def test_a_log_that_was_moved_is_told() -> None:
    found = member()
    first, second = ids(found)
    found.answer("alter-partition", AssignReplicasToDirsResponse())
    found.tell(change(FLIGHTS, 0, directories=[first]), change(FLIGHTS, 1, directories=[second]))
    found.state.replica_manager.move_log(TopicPartition("flights", 0), SECOND)
    found.advance(5)
    assert told(found.asked("alter-partition")) == {second: [0]}


def test_a_directory_that_fails_is_told_with_the_heartbeat() -> None:
    found = member()
    found.unfence()
    first, _ = ids(found)
    found.filesystem.fail = lambda _, path: OSError(errno.EIO, "broken") if path.startswith(FIRST) else None
    found.connect().request(produce("flights", batch(b"a"), 0), 11)
    found.advance(12)
    request = found.answer("heartbeat", BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert request.offline_log_dirs == [first]
