"""A member of a streams group (KIP-1071), and the tasks that members have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.protocol.epochs import JOIN_EPOCH

#: Id of a sub-topology → numbers of its tasks, which are those of its partitions.
Tasks = Mapping[str, frozenset[int]]
#: Id of a sub-topology → number of a task → the epoch at which the member got it (KIP-1251).
TasksWithEpochs = Mapping[str, Mapping[int, int]]
#: A task: the id of its sub-topology, and its number.
TaskId = tuple[str, int]

_NONE: Tasks = {}
_NONE_WITH_EPOCHS: TasksWithEpochs = {}

#: How far a member is on its way to its target assignment; the numbers stand in records.
STABLE = 1
UNREVOKED_TASKS = 2
UNRELEASED_TASKS = 3
#: Written by a newer coordinator: the member has to begin anew.
UNKNOWN_STATE = 127


class TasksTuple(NamedTuple):
    """Tasks by role: worked on, kept up to date as a copy, being caught up with."""

    active: Tasks = _NONE
    standby: Tasks = _NONE
    warmup: Tasks = _NONE


NO_TASKS = TasksTuple()


class AssignedTasks(NamedTuple):
    """What a member has, by role; of active tasks since when, too."""

    active: TasksWithEpochs = _NONE_WITH_EPOCHS
    standby: Tasks = _NONE
    warmup: Tasks = _NONE

    def roles(self) -> Iterator[tuple[int, str, int]]:
        """Give each task once: its role (0, 1, 2 as the fields), the sub-topology, the number."""
        for role, tasks in enumerate(self):
            for subtopology_id, numbers in tasks.items():
                for number in numbers:
                    yield role, subtopology_id, number

    def without_epochs(self) -> TasksTuple:
        """Return the same tasks, as members are told of them and tell."""
        return TasksTuple(numbers_of(self.active), self.standby, self.warmup)


NO_ASSIGNED_TASKS = AssignedTasks()


class StreamsGroupMember(NamedTuple):
    """What the coordinator knows of one member; it never changes, `_replace` makes the next one.

    `assigned` is what the member may use, `pending_revocation` what it has to give up before others can get it. Members
    of one process (`process_id`) share its disk: of a task they hold one copy together.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = {}
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = 0
    state: int = STABLE
    assigned: AssignedTasks = NO_ASSIGNED_TASKS
    pending_revocation: AssignedTasks = NO_ASSIGNED_TASKS

    @property
    def metadata(self) -> tuple[object, ...]:
        """What its metadata record holds, to compare."""
        return self[:10]

    def in_epoch(self, member_epoch: int) -> StreamsGroupMember:
        """Return the member in another epoch, which remembers the one it comes from."""
        return self._replace(member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has all that the target assignment of this epoch gives it, and nothing else."""
        return self.state == STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, subtopology_id: str, number: int) -> int | None:
        """Since which epoch the member works on a task; None if it does not."""
        epoch = self.assigned.active.get(subtopology_id, {}).get(number)
        return self.pending_revocation.active.get(subtopology_id, {}).get(number) if epoch is None else epoch


def numbers_of(tasks: TasksWithEpochs) -> dict[str, frozenset[int]]:
    """Return the tasks without their epochs."""
    return {subtopology_id: frozenset(numbers) for subtopology_id, numbers in tasks.items()}
