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
#: Members and tasks of a group, copies included, that are shared out at once: some milliseconds.
LARGE = 1000


def assignment_configs(settings: GroupSettings, group_id: str) -> dict[str, str]:
    """Return what the assignor is told of settings, as it is kept in the log."""
    return {_STANDBY_REPLICAS: str(settings.streams_num_standby_replicas(group_id))}


def can_compute(group: StreamsGroup, settings: GroupSettings, at: Instant) -> bool:
    """Whether the last target assignment is old enough for another (group.streams.assignment.interval.ms)."""
    return group.is_target_due(settings.streams_assignment_interval_ms(group.group_id), at)


class TargetComputation:
    """A target assignment on its way: worked out piece by piece, for one epoch of a group.

    What changes in the group meanwhile is not in it; the epoch after has its own.
    """

    __slots__ = ("_assigned", "_pieces", "epoch")

    def __init__(self, group: StreamsGroup, configured: ConfiguredTopology) -> None:
        self.epoch = group.epoch
        members = {
            member.member_id: MemberSpec(
                member.process_id, member.client_tags, group.targets.get(member.member_id, NO_TASKS)
            )
            for member in group.members.values()
        }
        self._assigned = dict.fromkeys(members, NO_TASKS)
        # While topics are missing, no member has any task.
        counts = _task_counts(configured) if configured.is_ready else {}
        self._pieces = sticky_assignor.assign_in_pieces(members, counts, _replicas(group))

    def step(self) -> bool:
        """Do one piece; tells whether it was the last."""
        try:
            next(self._pieces)
        except StopIteration as end:
            self._assigned.update(end.value)
            return True
        return False

    def write(self, draft: StreamsGroupDraft, at: Instant) -> None:
        """Make it the group's; only what changes is written, and nothing of members that have left."""
        group = draft.group
        for member_id, target in self._assigned.items():
            if member_id in group.members and group.targets.get(member_id) != target:
                draft.put_target(member_id, target)
        draft.put_target_epoch(self.epoch, at.now_ms)


def is_large(group: StreamsGroup, configured: ConfiguredTopology) -> bool:
    """Whether a target assignment takes so long that others should have their turn meanwhile."""
    tasks = sum(configured.task_counts.values()) if configured.is_ready else 0
    return len(group.members) + tasks * (1 + _replicas(group)) > LARGE


def update_target(draft: StreamsGroupDraft, configured: ConfiguredTopology, at: Instant) -> None:
    """Bring the target assignment to the group's epoch, at once."""
    computation = TargetComputation(draft.group, configured)
    while not computation.step():
        pass
    computation.write(draft, at)


def _replicas(group: StreamsGroup) -> int:
    return int(group.assignment_configs.get(_STANDBY_REPLICAS, "0"))


def _task_counts(configured: ConfiguredTopology) -> Mapping[str, TaskCount]:
    parts = configured.topology.subtopologies
    return {name: TaskCount(configured.task_counts[name], part.is_stateful) for name, part in parts.items()}
