"""How a member gets from what it has to its target assignment (KIP-1071): it gives up first, then it gets.

A member stays in its epoch, UNREVOKED_TASKS, until a heartbeat shows that it has given up what it is to. Then it goes
to the target's epoch with all that is free: an active task that no process works on, and of which its own process holds
no copy; a copy that its own process does not hold. The rest it gets when others let go; until then it is
UNRELEASED_TASKS.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas import errors
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
    numbers_of,
)

#: What a member says it has; None: the same as before.
Owned = TasksTuple | None
_ACTIVE = 0
_ROLES = range(3)
#: The epochs of copies, which nothing is told of.
_NONE = -1


def reconcile(
    group: StreamsGroup, member: StreamsGroupMember, target_epoch: int, target: TasksTuple, owned: Owned
) -> StreamsGroupMember:
    """Return the member one step further; the same member if there is nothing to do.

    `group` has the member as it was. Raises FencedMemberEpochError for a member in a state that a newer coordinator
    wrote.
    """
    epoch = member.member_epoch
    if member.is_reconciled_to(target_epoch):
        return member
    if member.state == UNREVOKED_TASKS:
        if _owns_any(owned, member.pending_revocation):
            return member
        epoch += 1
    elif member.state == UNKNOWN_STATE and (owned is None or any(owned)):
        raise errors.FencedMemberEpochError(
            f"Member {member.member_id} is in an unknown state. It must abandon all its tasks and rejoin."
        )
    has = [member.assigned.active, _with_epochs(member.assigned.standby), _with_epochs(member.assigned.warmup)]
    parts = [_divided(mine, wanted) for mine, wanted in zip(has, target, strict=True)]
    kept, to_revoke = [part[0] for part in parts], _tasks([part[1] for part in parts])
    if any(to_revoke) and _owns_any(owned, to_revoke):
        return member.in_epoch(epoch)._replace(
            state=UNREVOKED_TASKS, assigned=_tasks(kept), pending_revocation=to_revoke
        )
    unreleased = False
    for role, wanted in enumerate(target):
        for subtopology_id, numbers in wanted.items():
            missing = [one for one in sorted(numbers) if one not in kept[role].get(subtopology_id, {})]
            free = [one for one in missing if _is_free(group, member.process_id, role, subtopology_id, one)]
            unreleased |= len(free) < len(missing)
            if free:
                got = dict.fromkeys(free, target_epoch)
                kept[role][subtopology_id] = {**kept[role].get(subtopology_id, {}), **got}
    return member.in_epoch(target_epoch)._replace(
        state=UNRELEASED_TASKS if unreleased else STABLE,
        assigned=_tasks(kept),
        pending_revocation=NO_ASSIGNED_TASKS,
    )


def _is_free(group: StreamsGroup, process_id: str, role: int, subtopology_id: str, number: int) -> bool:
    for other in _ROLES:
        processes = group.processes_with(other, subtopology_id, number)
        if process_id in processes or (processes and role == other == _ACTIVE):
            return False
    return True


def _owns_any(owned: Owned, tasks: AssignedTasks) -> bool:
    if owned is None:
        return True
    return any(
        not mine.get(subtopology_id, frozenset()).isdisjoint(numbers)
        for mine, pending in zip(owned, tasks, strict=True)
        for subtopology_id, numbers in pending.items()
    )


def _divided(has: TasksWithEpochs, wanted: Tasks) -> tuple[dict[str, Mapping[int, int]], dict[str, Mapping[int, int]]]:
    """Return what is kept of what a member has, and what it is to give up."""
    kept: dict[str, Mapping[int, int]] = {}
    given_up: dict[str, Mapping[int, int]] = {}
    for subtopology_id, numbers in has.items():
        stay = wanted.get(subtopology_id, frozenset())
        for part, found in (
            (kept, {one: epoch for one, epoch in numbers.items() if one in stay}),
            (given_up, {one: epoch for one, epoch in numbers.items() if one not in stay}),
        ):
            if found:
                part[subtopology_id] = found
    return kept, given_up


def _with_epochs(tasks: Tasks) -> dict[str, dict[int, int]]:
    return {name: dict.fromkeys(numbers, _NONE) for name, numbers in tasks.items()}


def _tasks(by_role: list[dict[str, Mapping[int, int]]]) -> AssignedTasks:
    active, standby, warmup = by_role
    return AssignedTasks(active, numbers_of(standby), numbers_of(warmup))
