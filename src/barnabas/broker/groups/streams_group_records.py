"""The records of streams groups in `__consumer_offsets`, in Apache Kafka's formats, and what they do to a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.partition_storage import Record
from barnabas.broker.groups.record_table import (
    Effect,
    RecordTable,
    drop_target,
    group_record,
    nothing,
    put_target_epoch,
    with_epochs,
)
from barnabas.broker.groups.streams.topology import InternalTopic, StreamsTopology, Subtopology, from_message
from barnabas.broker.groups.streams_group import StreamsGroup
from barnabas.broker.groups.streams_group_member import (
    NO_ASSIGNED_TASKS,
    STABLE,
    UNKNOWN_STATE,
    UNRELEASED_TASKS,
    UNREVOKED_TASKS,
    AssignedTasks,
    StreamsGroupMember,
    Tasks,
    TasksTuple,
    TasksWithEpochs,
)
from barnabas.protocol.epochs import LEAVE_EPOCH
from barnabas.protocol.messages import streams_group_current_member_assignment_value as current_value
from barnabas.protocol.messages import streams_group_member_metadata_value as member_value
from barnabas.protocol.messages import streams_group_metadata_value as metadata_value
from barnabas.protocol.messages import streams_group_target_assignment_member_value as target_value
from barnabas.protocol.messages import streams_group_topology_value as topology_value
from barnabas.protocol.messages.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from barnabas.protocol.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from barnabas.protocol.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from barnabas.protocol.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from barnabas.protocol.messages.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.messages.streams_group_topology_key import StreamsGroupTopologyKey

if TYPE_CHECKING:
    from barnabas.protocol.message import Message

_STATES = frozenset((STABLE, UNREVOKED_TASKS, UNRELEASED_TASKS))


# --- written


def epoch_record(group: StreamsGroup) -> Record:
    """Return the group epoch, and what began it."""
    value = metadata_value.StreamsGroupMetadataValue(
        epoch=group.epoch,
        metadata_hash=group.metadata_hash,
        validated_topology_epoch=group.validated_topology_epoch,
        last_assignment_configs=[
            metadata_value.LastAssignmentConfig(name, text) for name, text in sorted(group.assignment_configs.items())
        ],
    )
    return group_record(StreamsGroupMetadataKey(group_id=group.group_id), value)


def topology_record(group_id: str, topology: StreamsTopology) -> Record:
    """Return what the application is made of."""
    value = topology_value.StreamsGroupTopologyValue(
        epoch=topology.epoch, subtopologies=[_subtopology(part) for part in topology.subtopologies.values()]
    )
    return group_record(StreamsGroupTopologyKey(group_id=group_id), value)


def _subtopology(part: Subtopology) -> topology_value.Subtopology:
    return topology_value.Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=list(part.source_topics),
        state_changelog_topics=[_topic_info(topic) for topic in part.changelogs],
        repartition_sink_topics=list(part.repartition_sinks),
        repartition_source_topics=[_topic_info(topic) for topic in part.repartition_sources],
        copartition_groups=[
            topology_value.CopartitionGroup(list(sources), [], list(repartitions))
            for sources, repartitions in part.copartition_groups
        ],
    )


def _topic_info(topic: InternalTopic) -> topology_value.TopicInfo:
    configs = [topology_value.TopicConfig(name, text) for name, text in topic.configs]
    return topology_value.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def member_record(group_id: str, member: StreamsGroupMember) -> Record:
    """Who the member is, and where."""
    endpoint = member.user_endpoint
    value = member_value.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else member_value.Endpoint(*endpoint),
        client_tags=[member_value.KeyValue(name, text) for name, text in sorted(member.client_tags.items())],
    )
    return group_record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """For which group epoch, and when, the target assignment was computed."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return group_record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: TasksTuple) -> Record:
    """Return a member's part of the target assignment."""
    value = target_value.StreamsGroupTargetAssignmentMemberValue(*map(_targets, target))
    return group_record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def _targets(tasks: Tasks) -> list[target_value.TaskIds]:
    return [target_value.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


def current_record(group_id: str, member: StreamsGroupMember) -> Record:
    """Return what a member has and is to give up, and since which epoch."""
    assigned, pending = member.assigned, member.pending_revocation
    value = current_value.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_without_epochs(assigned.standby),
        warmup_tasks=_without_epochs(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(pending.active),
        standby_tasks_pending_revocation=_without_epochs(pending.standby),
        warmup_tasks_pending_revocation=_without_epochs(pending.warmup),
    )
    return group_record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def _with_epochs(tasks: TasksWithEpochs) -> list[current_value.TaskIds]:
    found = []
    for subtopology_id in sorted(tasks):
        numbers = sorted(tasks[subtopology_id])
        found.append(current_value.TaskIds(subtopology_id, numbers, [tasks[subtopology_id][one] for one in numbers]))
    return found


def _without_epochs(tasks: Tasks) -> list[current_value.TaskIds]:
    return [current_value.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the end of a member."""
    return [
        group_record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        group_record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        group_record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group: StreamsGroup) -> list[Record]:
    """Return the end of a group without members."""
    group_id = group.group_id
    return [
        group_record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        group_record(StreamsGroupMetadataKey(group_id=group_id)),
        group_record(StreamsGroupTopologyKey(group_id=group_id)),
    ]


# --- read back


def _put_epoch(group: StreamsGroup, key: Message, value: metadata_value.StreamsGroupMetadataValue) -> None:
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.assignment_configs = {config.key: config.value for config in value.last_assignment_configs or ()}


def _put_topology(group: StreamsGroup, key: Message, value: topology_value.StreamsGroupTopologyValue) -> None:
    group.topology, group.configured = from_message(value), None


def _drop_topology(group: StreamsGroup, key: Message) -> None:
    group.topology = group.configured = None


def _put_member(
    group: StreamsGroup, key: StreamsGroupMemberMetadataKey, value: member_value.StreamsGroupMemberMetadataValue
) -> None:
    member = group.members.get(key.member_id) or StreamsGroupMember(key.member_id)
    endpoint = value.user_endpoint
    group.put(
        member._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )
    )


def _drop_target_epoch(group: StreamsGroup, key: Message) -> None:
    group.target_epoch, group.target_timestamp_ms = -1, 0


def _put_target(
    group: StreamsGroup,
    key: StreamsGroupTargetAssignmentMemberKey,
    value: target_value.StreamsGroupTargetAssignmentMemberValue,
) -> None:
    group.targets[key.member_id] = TasksTuple(
        _numbers(value.active_tasks), _numbers(value.standby_tasks), _numbers(value.warmup_tasks)
    )


def _put_current(
    group: StreamsGroup,
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: current_value.StreamsGroupCurrentMemberAssignmentValue,
) -> None:
    member = group.members.get(key.member_id) or StreamsGroupMember(key.member_id)
    epoch = value.member_epoch
    pending = AssignedTasks(
        _epochs(value.active_tasks_pending_revocation, epoch),
        _numbers(value.standby_tasks_pending_revocation),
        _numbers(value.warmup_tasks_pending_revocation),
    )
    group.put(
        member._replace(
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=value.state if value.state in _STATES else UNKNOWN_STATE,
            assigned=AssignedTasks(
                _epochs(value.active_tasks, epoch), _numbers(value.standby_tasks), _numbers(value.warmup_tasks)
            ),
            pending_revocation=pending,
        )
    )


def _drop_current(group: StreamsGroup, key: StreamsGroupCurrentMemberAssignmentKey) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        group.put(
            member._replace(
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned=NO_ASSIGNED_TASKS,
                pending_revocation=NO_ASSIGNED_TASKS,
            )
        )


def _numbers(tasks: Iterable[target_value.TaskIds | current_value.TaskIds]) -> dict[str, frozenset[int]]:
    return {task.subtopology_id: frozenset(task.partitions) for task in tasks}


def _epochs(tasks: Iterable[current_value.TaskIds], member_epoch: int) -> dict[str, dict[int, int]]:
    return {task.subtopology_id: with_epochs(task.partitions, task.assignment_epochs, member_epoch) for task in tasks}


TABLE = RecordTable(
    StreamsGroup,
    StreamsGroupMetadataKey,
    [
        Effect(StreamsGroupMetadataKey, metadata_value.StreamsGroupMetadataValue, _put_epoch, nothing),
        Effect(StreamsGroupTopologyKey, topology_value.StreamsGroupTopologyValue, _put_topology, _drop_topology),
        Effect(
            StreamsGroupMemberMetadataKey,
            member_value.StreamsGroupMemberMetadataValue,
            _put_member,
            lambda group, key: group.remove(key.member_id),
        ),
        Effect(
            StreamsGroupTargetAssignmentMetadataKey,
            StreamsGroupTargetAssignmentMetadataValue,
            put_target_epoch,
            _drop_target_epoch,
        ),
        Effect(
            StreamsGroupTargetAssignmentMemberKey,
            target_value.StreamsGroupTargetAssignmentMemberValue,
            _put_target,
            drop_target,
        ),
        Effect(
            StreamsGroupCurrentMemberAssignmentKey,
            current_value.StreamsGroupCurrentMemberAssignmentValue,
            _put_current,
            _drop_current,
        ),
    ],
    group_tombstones,
)
