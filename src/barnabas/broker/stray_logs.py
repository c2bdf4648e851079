"""What becomes of a log that lies in a data directory and may belong to no topic (LogManager.isStrayReplica)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from barnabas.broker.log.log_directories import Logs
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata
    from barnabas.protocol.topic_partition import TopicPartition


class StrayLogs:
    """Looks at logs as they are opened; `topic` finds a topic by name, and `deleted` are the ids of those that were.

    `is_assigned` tells of a topic that is there whether this broker still has the replica; None for a broker that is in
    no cluster. `warn` tells the operator.
    """

    def __init__(
        self,
        logs: Logs,
        topic: Callable[[str], TopicMetadata | None],
        deleted: Collection[bytes],
        is_assigned: Callable[[TopicPartition], bool] | None,
        warn: Callable[[str], None],
    ) -> None:
        self._logs = logs
        self._topic = topic
        self._deleted = deleted
        self._is_assigned = is_assigned
        self._warn = warn

    def check(self, log: UnifiedLog) -> None:
        """Delete the log of a deleted topic that a crash has left, and say so of a log that belongs to no topic.

        A broker by itself closes that one, so that no retention touches it; a topic that is made under its name takes
        it over. All others are renamed, for they must be neither served nor deleted: those of another topic of the same
        name, and in a cluster, as in Apache Kafka 4, those of no replica that this broker has.
        """
        name = log.topic_partition
        topic = self._topic(name.topic)
        is_known = topic is not None and name.partition < topic.partitions
        if log.topic_id in self._deleted:
            self._logs.delete_log(name)
        elif is_known or self._is_assigned is not None:
            self._check_in_use(log, topic.id if topic is not None and is_known else None)
        else:
            self._logs.set_aside(name)
            self._warn(
                f"{log.directory} belongs to no topic that is known here; it is left as it is and not served. "
                f"Create the topic {name.topic} with at least {name.partition + 1} partition(s) to take it over"
            )

    def _check_in_use(self, log: UnifiedLog, topic_id: bytes | None) -> None:
        """Rename a log that is of another topic than the one with this id, or of a replica that others have now."""
        name, directory = log.topic_partition, log.directory
        if topic_id is None or (log.topic_id not in (None, topic_id) and self._is_assigned is not None):
            self._put_aside(name, f"{directory} is of a topic that is gone: no topic of this cluster has its id")
        elif log.topic_id not in (None, topic_id):
            self._warn(
                f"{directory} was written for another topic of that name; it is kept as "
                f"{self._logs.mark_stray(name)} and not served. To import it, delete its partition.metadata and "
                "give it its old name while the broker is stopped"
            )
        elif self._is_assigned is not None and not self._is_assigned(name):
            self._put_aside(name, f"{directory} is of a replica that was moved to other brokers")

    def _put_aside(self, name: TopicPartition, why: str) -> None:
        self._warn(f"{why}; it is kept as {self._logs.mark_stray(name)} and not served, and can be deleted")
