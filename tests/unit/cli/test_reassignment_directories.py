"""Directories that a plan names: asked for until the replica is there, shown, and left where they were."""

from __future__ import annotations

from unittest.mock import Mock

from barnabas import TopicPartition
from barnabas.admin import ReplicaLogDirInfo, TopicPartitionReplica
from barnabas.cli.reassignment_directories import cancel_moves, directories_now, move_logs, states
from barnabas.errors import KafkaError, LogDirNotFoundError, ReplicaNotAvailableError

HERE, COMING = TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 0, 2)
WANTED = {HERE: "/two", COMING: "/two"}


class Brokers:
    """Brokers that answer AlterReplicaLogDirs with each of these errors in turn, and then with success."""

    def __init__(self, *errors: dict[TopicPartitionReplica, KafkaError]) -> None:
        self._errors = list(errors)
        self.asked: list[dict[TopicPartitionReplica, str]] = []

    def alter_replica_log_dirs(self, wanted: dict[TopicPartitionReplica, str], raise_errors: bool) -> Mock:
        assert not raise_errors
        self.asked.append(wanted)
        return Mock(errors=self._errors.pop(0) if self._errors else {})


def _move(brokers: Brokers) -> tuple[list[KafkaError], list[float]]:
    pauses: list[float] = []
    admin = Mock(alter_replica_log_dirs=brokers.alter_replica_log_dirs)
    return move_logs(admin, WANTED, pauses.append), pauses


def test_a_broker_is_asked_again_until_the_replica_has_come_to_it() -> None:
    brokers = Brokers({COMING: ReplicaNotAvailableError()}, {COMING: ReplicaNotAvailableError()})
    assert _move(brokers) == ([], [0.1, 0.1])
    assert brokers.asked == [WANTED, {COMING: "/two"}, {COMING: "/two"}]


def test_what_is_refused_is_told_and_not_asked_again() -> None:
    refusal = LogDirNotFoundError()
    brokers = Brokers({HERE: refusal, COMING: ReplicaNotAvailableError()})
    failed, pauses = _move(brokers)
    assert [(type(problem), str(problem)) for problem in failed] == [
        (LogDirNotFoundError, f"{refusal} (asked for /two)")
    ]
    assert pauses == [0.1]
    assert brokers.asked == [WANTED, {COMING: "/two"}]


def test_a_replica_that_does_not_come_within_ten_seconds_is_told() -> None:
    problem = ReplicaNotAvailableError()
    failed, pauses = _move(Brokers(*[{COMING: problem}] * 200))
    assert [type(one) for one in failed] == [ReplicaNotAvailableError]
    assert 9.5 < sum(pauses) < 10.5


def test_a_partition_is_moving_only_if_each_replica_lies_or_comes_where_it_should() -> None:
    places = {
        (ReplicaLogDirInfo("/two"), ReplicaLogDirInfo("/two")): {},
        (ReplicaLogDirInfo("/two"), ReplicaLogDirInfo("/one", 0, "/two", 7)): {TopicPartition("t", 0): "moving"},
        (ReplicaLogDirInfo("/one"), ReplicaLogDirInfo("/one", 0, "/two", 7)): {TopicPartition("t", 0): "elsewhere"},
        (ReplicaLogDirInfo("/one", 0, "/two", 7), ReplicaLogDirInfo()): {TopicPartition("t", 0): "elsewhere"},
        (ReplicaLogDirInfo("/two"), ReplicaLogDirInfo("/two", 0, "/one", 7)): {TopicPartition("t", 0): "elsewhere"},
    }
    for (here, coming), said in places.items():
        admin = Mock()
        admin.describe_replica_log_dirs.return_value = {HERE: here, COMING: coming}
        assert states(admin, WANTED) == said


def test_only_replicas_that_move_are_left_where_they_are() -> None:
    brokers = Brokers()
    admin = Mock(alter_replica_log_dirs=brokers.alter_replica_log_dirs)
    moving, lies = ReplicaLogDirInfo("/one", 0, "/two", 7), ReplicaLogDirInfo("/two")
    admin.describe_replica_log_dirs.return_value = {HERE: moving, COMING: lies}
    assert cancel_moves(admin, WANTED) == ([TopicPartition("t", 0)], [])
    assert brokers.asked == [{HERE: "/one"}]


def test_a_replica_that_no_broker_has_lies_nowhere() -> None:
    admin = Mock()
    admin.describe_replica_log_dirs.return_value = {HERE: ReplicaLogDirInfo("/one"), COMING: ReplicaLogDirInfo()}
    assert directories_now(admin, WANTED) == {HERE: "/one"}
    assert directories_now(Mock(spec=[]), []) == {}
