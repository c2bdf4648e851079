"""Copies of logs that were on their way to another directory when the broker's last life ended (KAFKA-16082).

The controller is told of the new place before a copy is swapped in, so the replica may be taken to lie with a copy. In
most cases the log is there, too, and the copy is of no use. Where the log's own directory is lost for good the copy is
the replica, as in Apache Kafka 4; there it takes the place of a log that is there as well, which may be longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.checkpoint_files import topic_id_of
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.broker.log.log_file_utils import parse_directory_name
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.log.log_manager import DirectoryState, LogManager
    from barnabas.protocol.topic_partition import TopicPartition

_logger = lazy_logger(__name__)


class AssignedReplica(NamedTuple):
    """A replica of this broker's, and the id of the directory in which the controller takes it to lie."""

    name: TopicPartition
    directory: bytes


def settle_copies(
    directories: Sequence[DirectoryState], assigned: Callable[[bytes, int], AssignedReplica | None]
) -> None:
    """Take up each copy that is the replica, and delete those that are not; to be called before roles are taken.

    `assigned(topic id, partition)` gives what the controller says of a partition, None where this broker has none of
    its replicas. While a directory is out of service that may have the log, its copy is left to the next start: the log
    may hold what was acknowledged since.
    """
    in_service = [state.manager for state in directories if state.problem is None]
    for manager in in_service:
        for path in manager.take_unfinished():
            found = _replica_of(manager, path, assigned)
            if found is None or any(other.holds(found.name) for other in in_service):
                manager.drop_unfinished(path)
            elif len(in_service) < len(directories):
                _logger().warning("%s is left: its log may lie in a directory that is out of service", path)
            else:
                _take_up(manager, path, found.name)


def _replica_of(
    manager: LogManager, path: str, assigned: Callable[[bytes, int], AssignedReplica | None]
) -> AssignedReplica | None:
    """Return the replica that a copy is, if the controller takes it to lie there.

    A long name of a topic is cut in that of the directory; the topic's id is in a file.
    """
    parsed, topic_id = parse_directory_name(path.rpartition("/")[2]), topic_id_of(manager.filesystem, path)
    if parsed is None or topic_id is None:
        return None
    found = assigned(topic_id, parsed.partition)
    return found if found is not None and found.directory == manager.log_directory.directory_id else None


def _take_up(manager: LogManager, path: str, name: TopicPartition) -> None:
    try:
        _logger().warning("%s is the replica of %s: its log is gone", manager.take_up_unfinished(path, name), name)
    except KafkaStorageError as problem:
        _logger().error("%s; the replica is made anew", problem)
