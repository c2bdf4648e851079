"""Copies of logs that were on their way to another directory when the broker's last life ended (KAFKA-16082).

In most cases the log is there, too, and the copy is of no use. Where the log's own directory is lost for good the copy
is what is left. Apache Kafka 4 makes a copy the replica where the controller takes it to lie there, which it is told
before the swap: also in the place of a log that is there, and may be longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.checkpoint_files import topic_id_of
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.broker.log.log_file_utils import parse_directory_name
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.log.log_manager import DirectoryState, LogManager
    from barnabas.protocol.topic_partition import TopicPartition

_logger = lazy_logger(__name__)


def settle_copies(
    directories: Sequence[DirectoryState], assigned: Callable[[bytes, int], TopicPartition | None]
) -> None:
    """Take up each copy whose log is gone, and delete the others; to be called before roles are taken.

    `assigned(topic id, partition)` gives the name of a partition, None where this broker has none of its replicas.
    While a directory is out of service that may have the log, its copy is left to the next start: the log may hold what
    was acknowledged since.
    """
    in_service = [state.manager for state in directories if state.problem is None]
    for manager in in_service:
        for path in manager.take_unfinished():
            parsed, topic_id = parse_directory_name(path.rpartition("/")[2]), topic_id_of(manager.filesystem, path)
            # A long name of a topic is cut in that of the directory.
            name = None if parsed is None or topic_id is None else assigned(topic_id, parsed.partition)
            if name is None or any(_topic_id(other, name) in (None, topic_id) for other in _holders(in_service, name)):
                manager.drop_unfinished(path)
            elif len(in_service) < len(directories):
                _logger().warning("%s is left: its log may lie in a directory that is out of service", path)
            else:
                _take_up(manager, path, name, _holders(in_service, name))


def _holders(managers: Sequence[LogManager], name: TopicPartition) -> list[LogManager]:
    return [manager for manager in managers if manager.holds(name)]


def _topic_id(manager: LogManager, name: TopicPartition) -> bytes | None:
    log = manager.logs.get(name)
    return log.topic_id if log is not None else topic_id_of(manager.filesystem, manager.unopened.directory_of(name))


def _take_up(manager: LogManager, path: str, name: TopicPartition, of_others: Sequence[LogManager]) -> None:
    """Make a copy the replica; logs of topics that are gone, which have its name, are put aside."""
    try:
        for other in of_others:
            mark = other.mark_stray if name in other.logs else other.mark_unopened_stray
            _logger().warning("%s is of a topic that is gone; it is kept", mark(name))
        _logger().warning("%s is the replica of %s: its log is gone", manager.take_up_unfinished(path, name), name)
    except KafkaStorageError as problem:
        _logger().error("%s; the replica is made anew", problem)
