"""What a StreamsGroupHeartbeat has to look like (KIP-1071), and whether its member may send it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.broker.groups.streams.topic_configuration import repartition_counts
from barnabas.broker.groups.streams.topology import StreamsTopology
from barnabas.broker.groups.streams_group_member import Tasks, TasksTuple
from barnabas.errors import FencedMemberEpochError, InvalidRequestError, StreamsInvalidTopologyError
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.groups.streams_group_member import StreamsGroupMember
    from barnabas.protocol.messages.streams_group_heartbeat_request import (
        StreamsGroupHeartbeatRequest,
        TaskIds,
        Topology,
    )


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise InvalidRequestError or StreamsInvalidTopologyError."""
    _check_supported(request)
    for name in ("member_id", "group_id", "rack_id"):
        value = getattr(request, name)
        if value is not None and not value.strip():
            raise InvalidRequestError(f"{name.title().replace('_', '')} can't be empty.")
    if request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequestError(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -1.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(one is not None for one in tasks) and any(one is None for one in tasks):
        raise InvalidRequestError("If one task-type is non-null, all must be non-null.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.topology is not None:
        raise InvalidRequestError("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    # What the protocol has words for, and Apache Kafka 4.3 refuses as well.
    if request.instance_id is not None:
        raise InvalidRequestError("Static membership is not yet supported.")
    if request.task_offsets is not None or request.task_end_offsets is not None:
        raise InvalidRequestError("TaskOffsets and TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise InvalidRequestError("WarmupTasks are not supported yet.")
    if request.topology is not None and any(part.source_topic_regex for part in request.topology.subtopologies):
        raise InvalidRequestError("Regular expressions for source topics are not supported yet.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    if request.active_tasks or request.standby_tasks:
        raise InvalidRequestError("ActiveTasks and StandbyTasks must be empty when (re-)joining.")
    if request.topology is None:
        raise InvalidRequestError("Topology must be non-null when (re-)joining.")
    _check_topology(request.topology)


def _check_topology(topology: Topology) -> None:
    if topology.epoch < 0:
        raise StreamsInvalidTopologyError(f"Topology epoch {topology.epoch} must not be negative.")
    if len({part.subtopology_id for part in topology.subtopologies}) < len(topology.subtopologies):
        raise StreamsInvalidTopologyError("Two sub-topologies have the same id.")
    for part in topology.subtopologies:
        inputs = ((part.source_topics, "source_topics"), (part.repartition_source_topics, "repartition_source_topics"))
        if not any(topics for topics, _ in inputs):
            raise StreamsInvalidTopologyError(f"No source topics found for subtopology {part.subtopology_id}.")
        for group in part.copartition_groups:
            if any(not 0 <= index < len(topics) for topics, field in inputs for index in getattr(group, field)):
                raise StreamsInvalidTopologyError(
                    f"Sub-topology {part.subtopology_id} names topics as co-partitioned that it does not read."
                )
        for topic in part.state_changelog_topics:
            if topic.partitions:
                raise StreamsInvalidTopologyError(
                    f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}."
                )
        for topic in part.repartition_source_topics:
            if topic.partitions < 0:
                raise StreamsInvalidTopologyError(f"Repartition topic {topic.name} has {topic.partitions} partitions.")


def check_countable(topology: StreamsTopology) -> None:
    """Raise StreamsInvalidTopologyError for a topology whose partitions can never be counted: it has loops."""
    repartition_counts(topology.subtopologies.values(), lambda name: 1)


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> TasksTuple | None:
    """Return what the member says it has; None if it does not say."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TasksTuple(*map(_tasks, (request.active_tasks, request.standby_tasks, request.warmup_tasks)))


def _tasks(found: Iterable[TaskIds]) -> dict[str, frozenset[int]]:
    return {tasks.subtopology_id: frozenset(tasks.partitions) for tasks in found if tasks.partitions}


def check_epoch(member: StreamsGroupMember, epoch: int, owned: TasksTuple | None) -> None:
    """Raise FencedMemberEpochError unless the request comes from the member's epoch.

    The answer that told the next epoch may have got lost: who comes from the one before, and has nothing that it is
    not to have, is let through.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    knows_nothing_else = owned is not None and all(map(_is_subset, owned, member.assigned.without_epochs()))
    if epoch > member.member_epoch or epoch != member.previous_member_epoch or not knows_nothing_else:
        comparison = "greater" if epoch > member.member_epoch else "smaller"
        raise FencedMemberEpochError(
            f"The streams group member has a {comparison} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin."
        )


def _is_subset(owned: Tasks, assigned: Tasks) -> bool:
    return all(numbers <= assigned.get(subtopology_id, frozenset()) for subtopology_id, numbers in owned.items())


def check_tasks(owned: TasksTuple | None, task_counts: Mapping[str, int]) -> None:
    """Raise InvalidRequestError for tasks that the topology does not have."""
    for subtopology_id, numbers in ((key, found) for tasks in owned or () for key, found in tasks.items()):
        count = task_counts.get(subtopology_id)
        if count is None:
            raise InvalidRequestError(f"Subtopology {subtopology_id} does not exist in the topology.")
        wrong = [number for number in sorted(numbers) if not 0 <= number < count]
        if wrong:
            raise InvalidRequestError(
                f"Task {wrong[0]} for subtopology {subtopology_id} is invalid. "
                f"Number of tasks for this subtopology: {count}"
            )
