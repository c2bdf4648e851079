"""Other replicas for partitions (the reassignments of ReplicationControlManager; KIP-455, KIP-860)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.controller.controller_result import ControllerResult, Records, check_size
from barnabas.broker.controller.partition_indexes import TopicIdPartition
from barnabas.broker.controller.partition_reassignment import (
    PartitionReassignmentReplicas,
    PartitionReassignmentRevert,
)
from barnabas.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from barnabas.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.broker.controller.partition_changes import PartitionChanges
    from barnabas.broker.metadata.metadata_image import MetadataImage, TopicImage
    from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
    from barnabas.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsTopics


class ReassignmentControlManager:
    """Begins, changes and cancels reassignments; they end by themselves when the ISR allows it."""

    def __init__(self, changes: PartitionChanges) -> None:
        self._changes = changes
        self._state = changes.state

    def alter(
        self, request: AlterPartitionReassignmentsRequest
    ) -> ControllerResult[AlterPartitionReassignmentsResponse]:
        """Reassign partitions, or (no replicas) cancel what is going on; each has its own result."""
        may_change_factor = request.allow_replication_factor_change
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_change_factor, error_message=None
        )
        records: Records = []
        for topic in request.topics:
            result = ReassignableTopicResponse(name=topic.name)
            for asked in topic.partitions:
                part = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
                try:
                    found = self._altered(topic.name, asked.partition_index, asked.replicas, may_change_factor)
                    records += [found] if found is not None else []
                except errors.KafkaError as problem:
                    part.error_code, part.error_message = problem.code, str(problem)
                result.partitions.append(part)
            response.responses.append(result)
        check_size(records)
        return ControllerResult(records, response, True)

    def _altered(
        self, name: str, index: int, replicas: Sequence[int] | None, may_change_factor: bool
    ) -> ApiMessageAndVersion | None:
        topic = self._state.image.topic(name)
        if topic is None:
            raise errors.UnknownTopicOrPartitionError(f"Unable to find a topic named {name}.")
        if index not in topic.partitions:
            raise errors.UnknownTopicOrPartitionError(f"Unable to find partition {name}:{index}.")
        if replicas is None:
            return self._cancelled(topic, index)
        return self._begun(topic, index, replicas, may_change_factor)

    def _cancelled(self, topic: TopicImage, index: int) -> ApiMessageAndVersion | None:
        partition = topic.partitions[index]
        if not partition.is_reassigning:
            raise errors.NoReassignmentInProgressError()
        revert = PartitionReassignmentRevert.of(partition)
        if revert.is_unclean and not self._changes.schema.allows_unclean_election(topic.name):
            raise errors.InvalidReplicaAssignmentError(
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election."
            )
        election = self._changes.automatic_election(topic.name)
        builder = self._changes.builder(topic, TopicIdPartition(topic.id, index), election)
        builder.isr, builder.replicas = revert.isr, revert.replicas
        builder.adding = builder.removing = ()
        return builder.build()

    def _begun(
        self, topic: TopicImage, index: int, replicas: Sequence[int], may_change_factor: bool
    ) -> ApiMessageAndVersion | None:
        partition = topic.partitions[index]
        self._changes.check_manual_assignment(replicas)
        if not may_change_factor and _factor(partition) != len(replicas):
            raise errors.InvalidReplicationFactorError(
                f"The replication factor is changed from {_factor(partition)} to {len(replicas)}"
            )
        # Of an earlier target nothing stays that the new one gives up, and what was before any of them stays known:
        # else a cancelled reassignment would end with what was added in vain. Apache Kafka's controller keeps what was
        # being added where the new target adds nothing, and adds and removes it at once, which never ends; it forgets
        # it where the new target adds others; and it goes on removing what it was where the new target removes nothing.
        given_up = _given_up(partition, replicas)
        left = [replica for replica in partition.replicas if replica not in given_up]
        way = PartitionReassignmentReplicas.between(left, replicas)
        builder = self._changes.builder(topic, TopicIdPartition(topic.id, index))
        builder.replicas = way.replicas
        builder.isr = [replica for replica in builder.isr if replica not in given_up]
        builder.removing = way.removing
        builder.adding = sorted(set(replicas) - (set(partition.replicas) - set(partition.adding_replicas)))
        return builder.build()


def list_reassignments(
    image: MetadataImage, asked: Sequence[ListPartitionReassignmentsTopics] | None
) -> ListPartitionReassignmentsResponse:
    """Return what is being reassigned: of the partitions asked for, or (None) of all."""
    wanted: list[tuple[TopicImage | None, Iterable[int]]]
    if asked is None:
        wanted = [(topic, topic.partitions) for topic in image.topics.values()]
    else:
        wanted = [(image.topic(one.name), one.partition_indexes) for one in asked]
    response = ListPartitionReassignmentsResponse(error_message=None)
    for topic, indexes in wanted:
        if topic is None:
            continue
        ongoing = [_ongoing(topic, index) for index in indexes if _is_reassigning(topic, index)]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return response


def _is_reassigning(topic: TopicImage, index: int) -> bool:
    return index in topic.partitions and topic.partitions[index].is_reassigning


def _ongoing(topic: TopicImage, index: int) -> OngoingPartitionReassignment:
    partition = topic.partitions[index]
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )


def _given_up(partition: PartitionRegistration, target: Sequence[int]) -> set[int]:
    """Return the replicas that were being added, and are not any more.

    None where no other may lead: then they go when the new ones are in sync.
    """
    found = set(partition.adding_replicas) - set(target)
    may_lead = set(partition.isr or partition.elr)
    return set() if may_lead and may_lead <= found else found


def _factor(partition: PartitionRegistration) -> int:
    """Return how many replicas a partition has, or will have when its reassignment ends."""
    return len({*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas))
