"""Which of two logs of one partition is used, where two data directories have one (LogManager.loadLog).

A directory was away while its topic was deleted and created again, or while the replica was made anew in another one;
or a crash came between the two renames of a move. Apache Kafka does not start then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.checkpoint_files import topic_id_of
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.errors import KafkaError, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from barnabas.broker.log.log_manager import LogManager
    from barnabas.protocol.topic_partition import TopicPartition

_logger = lazy_logger(__name__)
#: What the topic id of a log says of it.
_OF_ANOTHER, _UNKNOWN, _OF_THE_TOPIC = range(3)


class DuplicateLogs:
    """Looks at logs that are not open yet; `topic_ids` are those of the topics that are there, by name.

    That of the topic is used. Of two of one topic that with the later last leader epoch has all that was committed in
    it, and of two with the same one the longer has all of the other. Recovery points do not tell: that of a log in use
    may be minutes old.

    The log of a topic with an id in `deleted` is deleted, others that are not used are put aside as strays.
    """

    def __init__(self, topic_ids: Mapping[str, bytes], deleted: Collection[bytes]) -> None:
        self._topic_ids = topic_ids
        self._deleted = deleted

    def settle(self, managers: Iterable[LogManager], now_ms: int) -> None:
        """Leave one log of each partition."""
        found: dict[TopicPartition, list[LogManager]] = {}
        for manager in managers:
            for name in manager.unopened.checkpoints():
                found.setdefault(name, []).append(manager)
        for name, holders in found.items():
            if len(holders) > 1:
                self._settle(name, holders, now_ms)

    def _settle(self, name: TopicPartition, holders: list[LogManager], now_ms: int) -> None:
        ids = {manager: topic_id_of(manager.filesystem, manager.unopened.directory_of(name)) for manager in holders}
        identities = {manager: self._identity(name, topic_id) for manager, topic_id in ids.items()}
        best = [manager for manager in holders if identities[manager] == max(identities.values())]
        kept = best[0] if len(best) == 1 else max(best, key=lambda manager: _last_epoch_and_end(manager, name, now_ms))
        where = " and ".join(manager.directory for manager in holders)
        _logger().warning("%s lies in %s; that in %s is used", name, where, kept.directory)
        for manager in holders:
            if manager is not kept:
                self._drop(manager, name, ids[manager])

    def _identity(self, name: TopicPartition, topic_id: bytes | None) -> int:
        if topic_id is None:
            return _UNKNOWN
        return _OF_THE_TOPIC if topic_id == self._topic_ids.get(name.topic) else _OF_ANOTHER

    def _drop(self, manager: LogManager, name: TopicPartition, topic_id: bytes | None) -> None:
        if topic_id in self._deleted:
            manager.delete_log(name)
            return
        try:
            _logger().warning("that in %s is kept as %s", manager.directory, manager.mark_unopened_stray(name))
        except KafkaStorageError as problem:
            # It is tried again, and no log of that name is made there before.
            _logger().error("that in %s is not used: %s", manager.directory, problem)


def _last_epoch_and_end(manager: LogManager, name: TopicPartition, now_ms: int) -> tuple[int, int]:
    try:
        return manager.unopened.last_epoch_and_end(name, now_ms)
    except (OSError, KafkaError) as problem:
        _logger().error("%s in %s cannot be read: %s", name, manager.directory, problem)
        return -1, -1
