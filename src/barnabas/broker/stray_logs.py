"""What becomes of a log that lies in a data directory and may belong to no topic (LogManager.isStrayReplica)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from barnabas.broker.log.log_directories import Logs
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata
    from barnabas.protocol.topic_partition import TopicPartition


class StrayLogs:
    """Looks at logs as they are opened; `topics` and `deleted` are the topics that are there and the ids that were.

    `is_assigned` tells of a topic that is there whether this broker still has the replica; `warn` tells the operator.
    """

    def __init__(
        self,
        logs: Logs,
        topics: Mapping[str, TopicMetadata],
        deleted: Collection[bytes],
        is_assigned: Callable[[TopicPartition], bool],
        warn: Callable[[str], None],
    ) -> None:
        self._logs = logs
        self._topics = topics
        self._deleted = deleted
        self._is_assigned = is_assigned
        self._warn = warn

    def check(self, log: UnifiedLog) -> None:
        """Delete the log of a deleted topic that a crash has left, and say so of a log that belongs to no topic.

        Such a one is closed, so that no retention touches it; a topic that is made under its name takes it over.
        A log of another topic of the same name is renamed, for it must be neither served nor deleted.
        """
        name = log.topic_partition
        topic = self._topics.get(name.topic)
        if log.topic_id in self._deleted:
            self._logs.delete_log(name)
        elif topic is None or name.partition >= topic.partitions:
            self._logs.set_aside(name)
            self._warn(
                f"{log.directory} belongs to no topic that is known here; it is left as it is and not served. "
                f"Create the topic {name.topic} with at least {name.partition + 1} partition(s) to take it over"
            )
        elif not self._is_assigned(name):
            self._warn(
                f"{log.directory} is of a replica that was moved to other brokers; it is kept as "
                f"{self._logs.mark_stray(name)} and not served, and can be deleted"
            )
        elif log.topic_id not in (None, topic.id):
            directory = log.directory
            self._warn(
                f"{directory} was written for another topic of that name; it is kept as "
                f"{self._logs.mark_stray(name)} and not served. To import it, delete its partition.metadata and "
                "give it its old name while the broker is stopped"
            )
