"""What an admin client does with partitions: their offsets, their records, their replicas, and where these lie."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from barnabas.client.admin.admin_operations import AdminOperations, checked
from barnabas.client.admin.log_dirs import (
    LogDirDescription,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
    alter_replica_log_dirs,
    describe_log_dirs,
    where_replicas_are,
)
from barnabas.client.admin.partition_offsets import DeleteRecordsHandler, ListedOffset, ListOffsetsHandler
from barnabas.client.admin.reassignments import (
    PartitionReassignment,
    alter_reassignments,
    elect_leaders,
    list_reassignments,
)
from barnabas.client.admin.results import Results
from barnabas.client.arguments import INT32, as_by_partition, as_integer, as_keys, as_mapping, as_partitions
from barnabas.client.steps import Steps
from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.protocol.kinds import ElectionType
from barnabas.protocol.topic_partition import TopicPartition


class PartitionOperations(AdminOperations):
    """Partitions."""

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, ListedOffset]:
        """Offsets of partitions.

        For each an `OffsetSpec`, or a time in epoch milliseconds for the first record of that time or later.
        `isolation_level` is `read_uncommitted` or `read_committed`: what LATEST means.
        """
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise IllegalArgumentError(
                f"isolation_level is {isolation_level!r}; it must be read_uncommitted or read_committed"
            )
        wanted = as_by_partition(specs, "specs")
        handler = ListOffsetsHandler(wanted, read_committed=isolation_level == "read_committed")
        return self._run(handler, wanted, timeout, raise_errors)

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[TopicPartition, int]:
        """Delete the records of partitions before an offset, -1 for all; return each one's new first offset.

        Raises `OffsetOutOfRangeError`, `PolicyViolationError` (a compacted topic), ...

        """
        wanted = as_by_partition(before, "before")
        return self._run(DeleteRecordsHandler(wanted), wanted, timeout, raise_errors)

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Make the preferred replica of partitions their leader, or any that is alive; None is every partition.

        Raises `ElectionNotNeededError` (it leads already), `PreferredLeaderNotAvailableError`, ...

        """
        wanted = None if partitions is None else as_partitions(partitions)
        return self._run_in_parts(elect_leaders(election_type, wanted), "partitions", timeout, raise_errors)

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Collection[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels a move in progress.

        Raises `NoReassignmentInProgressError`, `InvalidReplicaAssignmentError`, `UnknownTopicOrPartitionError`,
        ...

        """
        wanted = as_by_partition(reassignments, "reassignments")
        handler = alter_reassignments(wanted, allow_replication_factor_change=allow_replication_factor_change)
        return self._run(handler, wanted, timeout, raise_errors)

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the moves in progress, of these partitions or of all."""
        wanted = None if partitions is None else as_partitions(partitions)
        return self._run_one(list_reassignments(wanted), "reassignments", timeout)

    def describe_log_dirs(
        self,
        brokers: Iterable[int],
        partitions: Collection[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[int, dict[str, LogDirDescription]]:
        """Return the directories of brokers by path, with the logs in them: of these partitions, or all."""
        wanted = None if partitions is None else as_partitions(partitions)
        return self._run(describe_log_dirs(wanted), _brokers(brokers), timeout, raise_errors)

    def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[TopicPartitionReplica, ReplicaLogDirInfo]:
        """In which directories replicas are, and to which they are moving."""
        return self._complete(self._find_replicas(_replicas(replicas, "replicas"), timeout, raise_errors))

    def _find_replicas(
        self, replicas: list[TopicPartitionReplica], timeout: float | None, raise_errors: bool
    ) -> Steps[Results[TopicPartitionReplica, ReplicaLogDirInfo]]:
        partitions = {TopicPartition(replica.topic, replica.partition) for replica in replicas}
        brokers = {replica.broker_id for replica in replicas}
        described = yield from self._ask(describe_log_dirs(partitions), brokers, self._deadline(timeout))
        answered = [replica for replica in replicas if replica.broker_id in described]
        errors = {r: described.errors[r.broker_id] for r in replicas if r.broker_id in described.errors}
        return checked(Results(where_replicas_are(answered, described), errors), raise_errors)

    def alter_replica_log_dirs(
        self,
        replica_assignment: Mapping[TopicPartitionReplica, str],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartitionReplica, None]:
        """Begin to move replicas to other directories of their brokers.

        Raises `LogDirNotFoundError`, `ReplicaNotAvailableError`, `KafkaStorageError`, ...

        """
        wanted = as_mapping(replica_assignment, "replica_assignment")
        replicas = _replicas(wanted, "replica_assignment")
        return self._run(alter_replica_log_dirs(wanted), replicas, timeout, raise_errors)


def _brokers(brokers: Iterable[int]) -> list[int]:
    return [as_integer(broker, "an item of brokers", 0, INT32) for broker in as_keys(brokers, "brokers")]


def _replicas(replicas: Iterable[TopicPartitionReplica], name: str) -> list[TopicPartitionReplica]:
    keys = as_keys(replicas, name)
    for replica in keys:
        if not isinstance(replica, TopicPartitionReplica):
            raise IllegalTypeError(f"{name} has {replica!r}, which is no TopicPartitionReplica")
    return keys
