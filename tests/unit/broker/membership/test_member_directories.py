"""A member of a cluster with several data directories: what its controller is told of them (KIP-858)."""

from __future__ import annotations

import errno
import random
from typing import Any

from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.cluster_member import MemberBroker, broker, change, topic
from tests.support.core_broker import batch, produce
from tests.unit.broker.log.test_log_directories import DIRECTORIES

FLIGHTS = bytes(15) + b"\x01"
FIRST, SECOND = DIRECTORIES
MOVED = TopicPartition("flights", 0)


def member(**settings: int) -> MemberBroker:
    others = [*broker(1, host="one"), *broker(2, host="two"), *broker(3, host="three")]
    return MemberBroker(
        {name.replace("_", "."): value for name, value in settings.items()},
        *others,
        *topic("flights", FLIGHTS, [3], [3]),
        directories=DIRECTORIES,
    )


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


def test_a_broker_whose_only_disk_was_replaced_tells_where_its_replicas_lie_now() -> None:
    lost = bytes(15) + b"\xee"
    known = topic("flights", FLIGHTS, [3, 1])
    known[1].directories = [lost, bytes(15) + b"\xed"]
    found = MemberBroker({}, *broker(1, host="one"), *known)
    request = found.answer("alter-partition", AssignReplicasToDirsResponse())
    assert told(request) == {ids(found)[0]: [0]}


def test_a_broker_whose_only_disk_is_the_one_that_is_known_tells_nothing() -> None:
    found = MemberBroker({}, *broker(1, host="one"))
    known = topic("flights", FLIGHTS, [3, 1])
    known[1].directories = [*ids(found), bytes(15) + b"\xed"]
    found.tell(*known)
    assert found.asked("alter-partition") is None


def test_where_a_replica_lies_that_could_not_be_made_at_once_is_told_when_it_is_there() -> None:
    found = MemberBroker({}, *broker(1, host="one"), filesystem=(disk := MemoryFileSystem(random.Random(1))))
    disk.fail = lambda operation, path: OSError(errno.EIO, "broken", path) if "flights" in path else None
    known = topic("flights", FLIGHTS, [1, 3], leader=1)
    known[1].directories = [bytes(15) + b"\xed", bytes(15) + b"\xee"]
    found.tell(*known)
    assert found.member.failed_roles
    assert found.asked("alter-partition") is None
    disk.fail = None
    found.advance(60)
    assert not found.member.failed_roles
    assert told(found.asked("alter-partition")) == {ids(found)[0]: [0]}


def test_it_is_told_again_where_the_controller_did_not_take_it() -> None:
    found = member()
    found.answer("alter-partition", AssignReplicasToDirsResponse(error_code=77))
    found.advance(1)
    assert len(told(found.asked("alter-partition"))) == 2


def assigned() -> tuple[MemberBroker, bytes, bytes]:
    """A member whose controller knows where its two replicas lie; gives the ids of the directories, too."""
    found = member()
    first, second = ids(found)
    found.answer("alter-partition", AssignReplicasToDirsResponse())
    found.tell(change(FLIGHTS, 0, directories=[first]), change(FLIGHTS, 1, directories=[second]))
    return found, first, second


def lies_in(found: MemberBroker) -> str:
    owner = found.node.logs.owner(MOVED)  # type: ignore[union-attr]
    assert owner is not None
    return owner.directory


def test_a_log_is_swapped_once_the_controller_knows_its_new_place() -> None:
    found, _, second = assigned()
    found.state.replica_manager.move_log(MOVED, SECOND)
    found.advance(5)
    assert told(found.answer("alter-partition", AssignReplicasToDirsResponse())) == {second: [0]}
    found.advance(5)
    assert lies_in(found) == FIRST, "that was answered, and is no record yet"
    found.tell(change(FLIGHTS, 0, directories=[second]))
    found.advance(2)
    assert lies_in(found) == SECOND
    found.answer("alter-partition", AssignReplicasToDirsResponse())
    found.advance(2)
    assert found.asked("alter-partition") is None


def test_a_broker_that_dies_before_the_swap_tells_where_the_log_lies() -> None:
    found, first, second = assigned()
    found.state.replica_manager.move_log(MOVED, SECOND)
    found.advance(5)
    found.answer("alter-partition", AssignReplicasToDirsResponse())
    found.filesystem.crash()
    others = [*broker(1, host="one"), *broker(2, host="two"), *broker(3, host="three")]
    places = [change(FLIGHTS, 0, directories=[second]), change(FLIGHTS, 1, directories=[second])]
    records = [*others, *topic("flights", FLIGHTS, [3], [3]), *places]
    again = MemberBroker({}, *records, directories=DIRECTORIES, filesystem=found.filesystem)
    assert told(again.asked("alter-partition")) == {first: [0]}
    assert lies_in(again) == FIRST


def test_it_is_told_until_the_controller_takes_it() -> None:
    found, _, second = assigned()
    found.state.replica_manager.move_log(MOVED, SECOND)
    found.advance(5)
    found.answer("alter-partition", AssignReplicasToDirsResponse(error_code=77))
    found.advance(5)
    assert told(found.asked("alter-partition")) == {second: [0]}
    assert lies_in(found) == FIRST


def test_a_move_that_is_given_up_is_taken_back_at_the_controller() -> None:
    found, first, second = assigned()
    found.state.replica_manager.move_log(MOVED, SECOND)
    found.advance(5)
    found.answer("alter-partition", AssignReplicasToDirsResponse())
    found.tell(change(FLIGHTS, 0, directories=[second]))
    found.state.replica_manager.move_log(MOVED, FIRST)
    found.advance(1)
    assert told(found.asked("alter-partition")) == {first: [0]}
    assert lies_in(found) == FIRST


def test_a_directory_that_fails_is_told_with_the_heartbeat() -> None:
    found = member()
    found.unfence()
    first, _ = ids(found)
    found.filesystem.fail = lambda _, path: OSError(errno.EIO, "broken") if path.startswith(FIRST) else None
    found.connect().request(produce("flights", batch(b"a"), 0), 11)
    found.advance(12)
    request = found.answer("heartbeat", BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert request.offline_log_dirs == [first]


def test_a_directory_in_which_a_flush_fails_is_told_at_once() -> None:
    """Until the controller has its partitions led elsewhere producers are told of a storage error."""
    found = member(log_flush_interval_messages=1)
    found.unfence()
    found.advance(0.1)
    first, _ = ids(found)
    assert found.asked("heartbeat") is None, "the next one is due in a while"
    found.filesystem.fail = lambda operation, path: (
        OSError(errno.EIO, "broken") if operation == "sync" and path.startswith(FIRST) else None
    )
    found.connect().request(produce("flights", batch(b"a"), 0), 11)
    found.advance(0.01)
    request = found.asked("heartbeat")
    assert request is not None
    assert request.offline_log_dirs == [first]
