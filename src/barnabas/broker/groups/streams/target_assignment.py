"""Computes what each member of a streams group shall have (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.broker.groups.streams import sticky_assignor
from barnabas.broker.groups.streams.sticky_assignor import MemberSpec, TaskCount
from barnabas.broker.groups.streams_group_member import NO_TASKS

if TYPE_CHECKING:
    from barnabas.broker.groups.group_coordinator_config import GroupSettings
    from barnabas.broker.groups.streams.draft import StreamsGroupDraft
    from barnabas.broker.groups.streams.topic_configuration import ConfiguredTopology
    from barnabas.broker.groups.streams_group import StreamsGroup
    from barnabas.broker.instant import Instant

_STANDBY_REPLICAS = "num.standby.replicas"


def assignment_configs(settings: GroupSettings, group_id: str) -> dict[str, str]:
    """Return what the assignor is told of settings, as it is kept in the log."""
    return {_STANDBY_REPLICAS: str(settings.streams_num_standby_replicas(group_id))}


def can_compute(group: StreamsGroup, settings: GroupSettings, at: Instant) -> bool:
    """Whether the last target assignment is old enough for another (group.streams.assignment.interval.ms)."""
    return group.is_target_due(settings.streams_assignment_interval_ms(group.group_id), at)


def update_target(draft: StreamsGroupDraft, configured: ConfiguredTopology, at: Instant) -> None:
    """Bring the target assignment to the group's epoch; only what changes of it is written.

    While topics are missing, no member has any task.
    """
    group = draft.group
    members = {
        member.member_id: MemberSpec(
            member.process_id, member.client_tags, group.targets.get(member.member_id, NO_TASKS)
        )
        for member in group.members.values()
    }
    assigned = dict.fromkeys(members, NO_TASKS)
    if configured.is_ready:
        replicas = int(group.assignment_configs.get(_STANDBY_REPLICAS, "0"))
        assigned.update(sticky_assignor.assign(members, _task_counts(configured), replicas))
    for member_id, target in assigned.items():
        if group.targets.get(member_id) != target:
            draft.put_target(member_id, target)
    draft.put_target_epoch(at.now_ms)


def _task_counts(configured: ConfiguredTopology) -> Mapping[str, TaskCount]:
    parts = configured.topology.subtopologies
    return {name: TaskCount(configured.task_counts[name], part.is_stateful) for name, part in parts.items()}
