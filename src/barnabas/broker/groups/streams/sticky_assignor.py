"""The sticky task assignor (KIP-1071): members get as many tasks as each other, and keep what they have.

Active tasks come first: to who has them, then to who has a copy, then to the process with the least load, which is its
tasks by its members; in a process to the member with the fewest. A member has at most its quota of what it could keep,
so that others get theirs. Standby tasks follow, of tasks with a state: to who worked on the task, who has a copy, the
least loaded process. No process holds a task twice: its members share a disk.

Client tags (KIP-708) come before load for copies: a copy goes where most tags, such as the zone, have a value that no
other holder of the task has. Where all members have the same tags, as without any, only load counts. Apache Kafka 4.3
leaves tags out of account.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.broker.groups.streams_group_member import TaskId, TasksTuple

NAME = "sticky"
#: So many tasks are looked at in one piece, which is one to two milliseconds.
PIECE = 256


class MemberSpec(NamedTuple):
    """A member: its process, its tags, its part of the last target assignment."""

    process_id: str
    client_tags: Mapping[str, str]
    target: TasksTuple


class TaskCount(NamedTuple):
    """The tasks of a sub-topology."""

    tasks: int
    is_stateful: bool


def assign(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, TaskCount], standby_replicas: int
) -> dict[str, TasksTuple]:
    """Return each member's tasks; copies that no process has room for are left out."""
    pieces = assign_in_pieces(members, subtopologies, standby_replicas)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            assigned: dict[str, TasksTuple] = end.value
            return assigned


def assign_in_pieces(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, TaskCount], standby_replicas: int
) -> Generator[None, None, dict[str, TasksTuple]]:
    """As `assign`, with a pause after every `PIECE` tasks."""
    if not members:
        return {}
    assignment = _Assignment(members, subtopologies, standby_replicas)
    yield from assignment.assign_active()
    yield from assignment.assign_standby()
    yield
    return assignment.targets()


class _Process:
    __slots__ = ("active", "changes", "loads", "order", "standby", "tags", "tasks")

    def __init__(self, order: int, tags: frozenset[tuple[str, str]]) -> None:
        self.order = order
        self.tags = tags
        #: Member id → how many tasks it has.
        self.loads: dict[str, int] = {}
        self.tasks: set[TaskId] = set()
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self.changes = 0

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.loads)

    def least_loaded(self) -> str:
        return min(self.loads, key=self.loads.__getitem__)


class _Quota:
    """How many tasks a member may keep: the tasks shared out evenly among those who have not yet their share."""

    __slots__ = ("_members", "_tasks", "most")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.most = -(-tasks // members)

    def given(self, load: int) -> None:
        """Note that a member has now so many."""
        if load == self.most and self._members:
            self._members -= 1
            self._tasks -= load
            self.most = -(-self._tasks // self._members) if self._members else 0


class _ByLoad:
    """Processes by their load, in one heap for each combination of tags."""

    def __init__(self, processes: Iterable[_Process]) -> None:
        self._heaps: dict[frozenset[tuple[str, str]], list[tuple[float, int, int, _Process]]] = {}
        for process in processes:
            self._heaps.setdefault(process.tags, []).append(self._entry(process))
        for heap in self._heaps.values():
            heapq.heapify(heap)

    @staticmethod
    def _entry(process: _Process) -> tuple[float, int, int, _Process]:
        return process.load, process.order, process.changes, process

    def changed(self, process: _Process) -> None:
        """Note that a process has another load."""
        process.changes += 1
        heapq.heappush(self._heaps[process.tags], self._entry(process))

    def least(self, task: TaskId, holders: Iterable[_Process] = ()) -> _Process | None:
        """Return the least loaded process without a task: of those with most tags unlike those of its holders."""
        found: tuple[int, float, int, _Process] | None = None
        used = {tag for holder in holders for tag in holder.tags}
        for tags, heap in self._heaps.items():
            alike = len(tags & used)
            process = self._first_without(heap, task)
            if process is not None and (found is None or (alike, process.load, process.order) < found[:3]):
                found = alike, process.load, process.order, process
        return None if found is None else found[3]

    def _first_without(self, heap: list[tuple[float, int, int, _Process]], task: TaskId) -> _Process | None:
        aside = []
        process = None
        while heap and process is None:
            _, _, changes, candidate = heap[0]
            if changes != candidate.changes:
                heapq.heappop(heap)
            elif task in candidate.tasks:
                aside.append(heapq.heappop(heap))
            else:
                process = candidate
        for entry in aside:
            heapq.heappush(heap, entry)
        return process


class _Assignment:
    def __init__(
        self, members: Mapping[str, MemberSpec], subtopologies: Mapping[str, TaskCount], standby_replicas: int
    ) -> None:
        self._subtopologies = subtopologies
        self._replicas = standby_replicas
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._had_active: dict[TaskId, str] = {}
        self._had_standby: dict[TaskId, list[str]] = {}
        for member_id, spec in members.items():
            process = self._processes.get(spec.process_id)
            if process is None:
                process = _Process(len(self._processes), frozenset(spec.client_tags.items()))
                self._processes[spec.process_id] = process
            process.loads[member_id] = 0
            self._process_of[member_id] = process
            for task in _tasks_of(spec.target.active):
                self._had_active[task] = member_id
            for task in _tasks_of(spec.target.standby):
                self._had_standby.setdefault(task, []).append(member_id)
        active = sum(part.tasks for part in subtopologies.values())
        copies = sum(part.tasks for part in subtopologies.values() if part.is_stateful) * standby_replicas
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + copies, len(members))

    def _tasks(self, *, only_stateful: bool) -> list[TaskId]:
        return [
            (name, number)
            for name, part in self._subtopologies.items()
            if part.is_stateful or not only_stateful
            for number in range(part.tasks)
        ]

    def _give(self, member_id: str, task: TaskId, *, is_active: bool) -> None:
        process = self._process_of[member_id]
        process.tasks.add(task)
        (process.active if is_active else process.standby).setdefault(member_id, set()).add(task)
        process.loads[member_id] += 1
        if is_active:
            self._active_quota.given(process.loads[member_id])
        self._quota.given(process.loads[member_id])

    def _load(self, member_id: str) -> tuple[float, int]:
        process = self._process_of[member_id]
        return process.load, process.loads[member_id]

    def assign_active(self) -> Iterator[None]:
        # Tasks of the same partition go together where they were: partition first.
        tasks = sorted(self._tasks(only_stateful=False), key=lambda task: (task[1], task[0]))
        for had in (self._workers_of, self._holders_of):
            left = []
            for number, task in enumerate(tasks):
                if number % PIECE == 0:
                    yield
                if not self._keep_active(had(task), task):
                    left.append(task)
            tasks = left
        by_load = _ByLoad(self._processes.values())
        for number, task in enumerate(sorted(tasks)):
            if number % PIECE == 0:
                yield
            process = by_load.least(task)
            assert process is not None, "no process has the task"
            self._give(process.least_loaded(), task, is_active=True)
            by_load.changed(process)

    def _workers_of(self, task: TaskId) -> Iterable[str | None]:
        return [self._had_active.get(task)]

    def _holders_of(self, task: TaskId) -> Iterable[str | None]:
        return self._had_standby.get(task, ())

    def _keep_active(self, member_ids: Iterable[str | None], task: TaskId) -> bool:
        with_room = [
            one for one in member_ids if one is not None and self._process_of[one].loads[one] < self._active_quota.most
        ]
        if with_room:
            self._give(min(with_room, key=self._load), task, is_active=True)
        return bool(with_room)

    def assign_standby(self) -> Iterator[None]:
        if not self._replicas:
            return
        holders: dict[TaskId, list[_Process]] = {}
        for process in self._processes.values():
            for task in process.tasks:
                holders.setdefault(task, []).append(process)
        left = []
        tasks = self._tasks(only_stateful=True)
        spread = len({process.tags for process in self._processes.values()}) > 1
        by_load = _ByLoad(self._processes.values())
        in_order = sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True)
        for number, task in enumerate(in_order):
            if number % PIECE == 0:
                yield
            for replica in range(self._replicas):
                kept = self._keep_standby(task, holders[task], by_load if spread else None)
                if kept is None:
                    left.append((task, self._replicas - replica))
                    break
                holders[task].append(kept)
                by_load.changed(kept)
        for number, (task, count) in enumerate(sorted(left, reverse=True)):
            if number % PIECE == 0:
                yield
            for _ in range(count):
                found = by_load.least(task, holders[task])
                if found is None:
                    break
                self._give(found.least_loaded(), task, is_active=False)
                holders[task].append(found)
                by_load.changed(found)

    def _keep_standby(self, task: TaskId, holders: list[_Process], by_load: _ByLoad | None) -> _Process | None:
        """Leave a copy with who worked on the task or had one, unless tags (`by_load`) want it elsewhere."""
        best = None if by_load is None else by_load.least(task, holders)
        used = {tag for holder in holders for tag in holder.tags}
        for member_ids in ([self._had_active.get(task)], self._had_standby.get(task, ())):
            with_room = [
                one
                for one in member_ids
                if one is not None
                and task not in self._process_of[one].tasks
                and self._process_of[one].loads[one] < self._quota.most
                and (best is None or len(self._process_of[one].tags & used) <= len(best.tags & used))
            ]
            if with_room:
                member_id = min(with_room, key=self._load)
                self._give(member_id, task, is_active=False)
                return self._process_of[member_id]
        return None

    def targets(self) -> dict[str, TasksTuple]:
        return {
            member_id: TasksTuple(
                _by_subtopology(process.active.get(member_id, ())), _by_subtopology(process.standby.get(member_id, ()))
            )
            for member_id, process in self._process_of.items()
        }


def _tasks_of(tasks: Mapping[str, frozenset[int]]) -> list[TaskId]:
    return [(name, number) for name, numbers in tasks.items() for number in numbers]


def _by_subtopology(tasks: Iterable[TaskId]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for name, number in tasks:
        found.setdefault(name, set()).add(number)
    return {name: frozenset(numbers) for name, numbers in found.items()}
