"""A log was on its way to another data directory when its broker died, and its own directory is gone (KAFKA-16082).

The controller is told of the new place before the swap (KIP-858), so it may take the replica to lie in either.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.message import Message
from barnabas.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.cluster_member import ME, MemberBroker, broker, change, registration, topic
from tests.support.core_broker import START_MS, batch
from tests.support.sole_replica import append
from tests.unit.broker.log.test_log_directories import DIRECTORIES

FLIGHTS, OTHERS = bytes(15) + b"\x01", bytes(15) + b"\x02"
FLIGHT = TopicPartition("flights", 0)
FIRST, SECOND = DIRECTORIES
WRITTEN = 5


class Left:
    """What a broker has left that died before a swap which its controller had allowed: its disk, and the ids there."""

    def __init__(self, name: str = "flights") -> None:
        self.topic = name
        found = MemberBroker({}, *topic(name, FLIGHTS, [ME]), directories=DIRECTORIES)
        self.first, self.second = (state.manager.log_directory.directory_id for state in found.node.logs.directories)
        found.answer("alter-partition", AssignReplicasToDirsResponse())
        found.tell(change(FLIGHTS, directories=[self.first]))
        partition = found.state.replica_manager.used_partition(name, 0)
        assert partition is not None
        for number in range(WRITTEN):
            append(partition.log, batch(b"%d" % number), now_ms=START_MS)
        found.state.replica_manager.move_log(TopicPartition(name, 0), SECOND)
        found.advance(5)
        found.answer("alter-partition", AssignReplicasToDirsResponse())
        self.disk: MemoryFileSystem = found.filesystem
        self.disk.crash()
        assert self.named("-future")

    def named(self, suffix: str) -> list[str]:
        return [name for name in self.disk._names if name.endswith(suffix)]

    def lose(self, directory: str) -> None:
        """Have a directory fail, which may come back."""
        self.disk.fail = lambda _, path: OSError(errno.EIO, "broken") if path.startswith(directory) else None

    def again(
        self, *records: Message, directories: Sequence[str] = DIRECTORIES, registers: bool = True
    ) -> MemberBroker:
        """Start the broker, by such metadata."""
        found = MemberBroker({}, *records, directories=directories, filesystem=self.disk, registers=registers)
        found.advance(2)
        return found

    def known_in(self, *directories: bytes, replicas: Sequence[int] = (ME,), id: bytes = FLIGHTS) -> list[Message]:
        """Metadata by which the replica lies there."""
        others = [*broker(1, host="one"), *broker(2, host="two")]
        return [*others, *topic(self.topic, id, [*replicas]), change(id, directories=[*directories])]


def end(found: MemberBroker, name: str = "flights") -> int | None:
    partition = found.state.replica_manager.used_partition(name, 0)
    return None if partition is None else partition.log.log_end_offset


def lies_in(found: MemberBroker) -> list[str]:
    return [state.manager.directory for state in found.node.logs.directories if state.manager.holds(FLIGHT)]


@pytest.mark.parametrize("how", ["another disk is there", "it is in log.dirs no more"])
def test_a_copy_is_the_replica_where_its_own_directory_is_lost_for_good(how: str) -> None:
    left = Left()
    left.disk.wipe(FIRST)
    directories = DIRECTORIES if how == "another disk is there" else [SECOND]
    found = left.again(*left.known_in(left.second), directories=directories)
    assert (end(found), lies_in(found)) == (WRITTEN, [SECOND])
    assert left.named("-future") == []
    append(found.state.replica_manager.used_partition(*FLIGHT).log, batch(b"5"), now_ms=START_MS)  # type: ignore[union-attr]
    left.disk.crash()
    assert end(left.again(*left.known_in(left.second), directories=directories)) == WRITTEN + 1


def test_it_is_the_replica_too_where_the_controller_takes_it_to_lie_in_the_lost_directory() -> None:
    """The controller does not count on what lay there; a replica that begins with the copy has less to fetch."""
    left = Left()
    left.disk.wipe(FIRST)
    found = left.again(*left.known_in(left.first))
    assert (end(found), lies_in(found)) == (WRITTEN, [SECOND])
    assert [one.id for one in found.asked("alter-partition").directories] == [left.second]


def test_a_log_of_a_topic_that_is_gone_is_not_taken_for_the_log() -> None:
    """It lies in a directory that was away when the topic was created again."""
    left = Left()
    left.disk.wipe(FIRST)
    MemberBroker({}, *topic("flights", OTHERS, [ME]), directories=[FIRST], filesystem=left.disk)
    left.disk.crash()
    found = left.again(*left.known_in(left.second))
    assert (end(found), lies_in(found)) == (WRITTEN, [SECOND])
    assert len(left.named("-stray")) == 1


def test_the_copy_is_kept_when_the_directory_of_the_log_fails_while_the_broker_runs() -> None:
    left = Left()
    found = left.again(*left.known_in(left.first))
    found.advance(120)
    found.state.replica_manager.move_log(FLIGHT, SECOND)
    found.advance(5)
    assert len(left.named("-future")) == 1
    left.lose(FIRST)
    found.node.logs.owner(FLIGHT).logs[FLIGHT].health.go_offline("its disk", OSError(errno.EIO, "broken"), reopen=False)  # type: ignore[union-attr]
    found.advance(120)
    found.stop()
    left.disk.crash()
    left.disk.fail = None
    left.disk.wipe(FIRST)
    again = left.again(*left.known_in(left.first))
    assert (end(again), lies_in(again)) == (WRITTEN, [SECOND])


def test_it_is_the_replica_after_a_loss_of_power_too() -> None:
    """It was flushed before the controller was told of it, and its new name may have to be given once more."""
    left = Left()
    left.disk.wipe(FIRST)
    left.disk.power_loss()
    assert end(left.again(*left.known_in(left.second))) == WRITTEN
    left.disk.power_loss()
    assert end(left.again(*left.known_in(left.second))) == WRITTEN


def test_a_copy_that_the_power_has_torn_is_recovered_as_a_log_is() -> None:
    left = Left()
    left.disk.wipe(FIRST)
    (data,) = [left.disk.inode(name) for name in left.disk._names if "-future" in name and name.endswith(".log")]
    del data.data[-1]
    assert end(left.again(*left.known_in(left.second))) == WRITTEN - 1


def test_a_follower_fetches_only_what_its_copy_lacks() -> None:
    left = Left()
    left.disk.wipe(FIRST)
    found = left.again(*left.known_in(bytes(15) + b"\xed", left.second, replicas=[1, ME]))
    (request,) = [found.asked(name) for name in {one.name for one in found.channels} if name.startswith("fetcher")]
    assert request.topics[0].partitions[0].fetch_offset == WRITTEN


def test_it_is_found_by_its_topic_id_where_the_name_of_its_directory_is_cut() -> None:
    left = Left("f" * 240)
    left.disk.wipe(FIRST)
    assert end(left.again(*left.known_in(left.second)), left.topic) == WRITTEN


def test_a_log_that_is_there_is_the_replica_wherever_the_controller_takes_it_to_lie() -> None:
    left = Left()
    found = left.again(*left.known_in(left.second))
    assert (end(found), lies_in(found)) == (WRITTEN, [FIRST])
    found.advance(120)
    assert left.named("-future") + left.named("-delete") == []


@pytest.mark.parametrize(
    "what",
    ["the topic was created again", "the topic is gone", "others have the replica"],
)
def test_a_copy_of_no_replica_there_is_deleted(what: str) -> None:
    left = Left()
    left.disk.wipe(FIRST)
    records = {
        "the topic was created again": left.known_in(left.second, id=OTHERS),
        "the topic is gone": left.known_in(left.second, id=OTHERS)[:4],
        "others have the replica": left.known_in(left.second, replicas=[1]),
    }[what]
    found = left.again(*records)
    assert end(found) in (0, None)
    found.advance(120)
    assert left.named("-future") + left.named("-delete") == []


def test_nothing_is_decided_by_metadata_that_do_not_have_this_life_yet() -> None:
    """They may be of a controller that others have replaced."""
    left = Left()
    left.disk.wipe(FIRST)
    found = left.again(*left.known_in(left.second, replicas=[1]), registers=False)
    found.advance(60)
    assert left.named("-future")
    found.tell(change(FLIGHTS, replicas=[ME], isr=[ME], leader=ME, directories=[left.second]))
    found.answer("heartbeat", BrokerRegistrationResponse(broker_epoch=30))
    found.tell(registration(ME, "127.0.0.1", 9092))
    found.advance(2)
    assert end(found) == WRITTEN


def test_while_a_directory_is_away_that_may_have_the_log_neither_is_used_nor_deleted() -> None:
    """The log may hold what was acknowledged after the copy was made; the directory, back, decides."""
    left = Left()
    left.lose(FIRST)
    found = left.again(*left.known_in(left.second))
    found.advance(120)
    assert end(found) is None
    assert left.named("-future")
    left.disk.crash()
    left.disk.fail = None
    found = left.again(*left.known_in(left.second))
    assert (end(found), lies_in(found)) == (WRITTEN, [FIRST])


def test_a_directory_that_stays_away_is_lost_for_good_when_it_is_in_log_dirs_no_more() -> None:
    left = Left()
    left.lose(FIRST)
    left.again(*left.known_in(left.second))
    left.disk.crash()
    assert end(left.again(*left.known_in(left.second), directories=[SECOND])) == WRITTEN


def test_a_copy_that_cannot_be_renamed_keeps_no_broker_from_its_start() -> None:
    left = Left()
    left.disk.wipe(FIRST)
    left.disk.fail = lambda what, path: OSError(errno.EIO, "broken") if what == "rename" and "-future" in path else None
    found = left.again(*left.known_in(left.second))
    assert end(found) == 0
    assert left.named("-future")


def test_a_log_whose_directory_fails_after_its_new_place_was_told_is_taken_back_there() -> None:
    """Else the controller would have it led where no log is served (KAFKA-16297)."""
    found = MemberBroker({"log.flush.interval.messages": 1}, *topic("flights", FLIGHTS, [ME]), directories=DIRECTORIES)
    first, second = (state.manager.log_directory.directory_id for state in found.node.logs.directories)
    found.answer("alter-partition", AssignReplicasToDirsResponse())
    found.tell(change(FLIGHTS, directories=[first]))
    found.state.replica_manager.move_log(FLIGHT, SECOND)
    found.advance(5)
    found.answer("alter-partition", AssignReplicasToDirsResponse())
    found.filesystem.fail = lambda _, path: OSError(errno.EIO, "broken") if path.startswith(FIRST) else None
    manager = next(state.manager for state in found.node.logs.directories if state.manager.directory == FIRST)
    manager.logs[FLIGHT].health.go_offline("its disk", OSError(errno.EIO, "broken"), reopen=False)
    found.advance(1)
    found.tell(change(FLIGHTS, directories=[second]))
    found.advance(1)
    request = found.asked("alter-partition")
    assert [one.id for one in request.directories] == [first]
