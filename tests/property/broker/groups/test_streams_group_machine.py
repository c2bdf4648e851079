"""Random lives of streams groups: no task is worked on twice, no process has one twice, in the end all are assigned.

Members follow the rules of Java's membership manager: they give up before they take, say what they have after each
change and after each failure, and begin anew when they are fenced. They stall, vanish and lose answers; the coordinator
is restarted, its log fails, topics grow, settings change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from random import Random
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.groups.streams import current_assignment, heartbeat, heartbeat_validation, target_assignment
from barnabas.broker.groups.streams_group import StreamsGroup
from barnabas.broker.groups.streams_group_member import NO_ASSIGNED_TASKS, TasksTuple
from tests.support.streams_member import FENCED, StreamsMember, settle
from tests.support.streams_oracle import flat
from tests.unit.broker.groups.streams.streams_group_harness import StreamsHarness

PROCESSES = ("p", "q", "r")
SESSION = 45.0


class Member(StreamsMember):
    """A member that takes up what it is told when it gets to it, and may not hear the answer."""

    told: tuple[Any, Any, Any] | None = None
    heard_at = 0.0

    def beat(self, loses_answer: bool) -> int:
        """Send a heartbeat; give its error, or 0."""
        self.keeps_revoked = True
        if loses_answer:
            code = self.send(self.request()).error_code
            self._reported = None
            return code
        response = self.heartbeat()
        if response.error_code:
            self.told, self._reported = None, None
        elif response.active_tasks is not None:
            roles = (response.active_tasks, response.standby_tasks or [], response.warmup_tasks or [])
            self.told = tuple({one.subtopology_id: set(one.partitions) for one in tasks} for tasks in roles)  # type: ignore[assignment]
        return response.error_code

    def take_up(self, gives_up_only: bool) -> None:
        """Give up what is not told any more, then take the rest."""
        if self.told is None:
            return
        kept = tuple(
            {part: left for part, numbers in mine.items() if (left := numbers & wanted.get(part, set()))}
            for mine, wanted in zip(self.owned, self.told, strict=True)
        )
        self.owned = kept if gives_up_only and kept != self.owned else self.told  # type: ignore[assignment]


class World:
    """A group on a coordinator in memory."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        settings = {"group_streams_num_standby_replicas": self.random.choice([0, 1, 2])}
        delay = self.random.choice([0, 3000])
        interval = self.random.choice([0, 1000])
        self.harness = StreamsHarness(
            seed=seed,
            group_streams_initial_rebalance_delay_ms=delay,
            group_streams_assignment_interval_ms=interval,
            **settings,
        )
        self.members: dict[str, Member] = {}
        self.made = 0
        self.epochs: Counter[str] = Counter()

    def step(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (12, self.heartbeat),
            (10, self.take_up),
            (2, self.join),
            (1, self.leave),
            (1, self.vanish),
            (2, self.wait),
            (1, self.restart),
            (1, self.grow),
            (1, self.fail),
        ]
        weights = [weight for weight, _ in actions]
        self.random.choices([action for _, action in actions], weights)[0]()
        self.check()

    def some(self) -> Member | None:
        return self.members[self.random.choice(sorted(self.members))] if self.members else None

    def join(self) -> None:
        if len(self.members) < 6:
            self.made += 1
            name = f"m{self.made}"
            self.members[name] = Member(self.harness.send, name, process=self.random.choice(PROCESSES))

    def heartbeat(self) -> None:
        member = self.some()
        if member is not None:
            # Who has not yet taken up what it was told, and loses the answer, holds for a moment what is another's, as
            # in Apache Kafka: its next heartbeat is fenced.
            is_taken_up = member.told is None or member.told == member.owned
            code = member.beat(is_taken_up and self.random.random() < 0.3)
            assert code in (0, *FENCED), code

    def take_up(self) -> None:
        member = self.some()
        if member is not None:
            member.take_up(self.random.random() < 0.3)

    def leave(self) -> None:
        member = self.some()
        if member is not None:
            del self.members[member.id]
            if member.epoch:
                member.leave()

    def vanish(self) -> None:
        member = self.some()
        if member is not None and self.random.random() < 0.5:
            del self.members[member.id]

    def wait(self) -> None:
        self.harness.advance(self.random.choice([0.3, 1.0, 4.0, 20.0]))

    def restart(self) -> None:
        if self.random.random() < 0.5:
            self.harness.storage.compact()
        self.harness.restart()

    def grow(self, how_likely: float = 0.3) -> None:
        known = self.harness.topics.topic("lines")
        if known is not None and known.partitions < 8 and self.random.random() < how_likely:
            for name in ("lines", "app-words", "app-counts"):
                self.harness.topic(name, known.partitions + 1)

    def fail(self) -> None:
        member = self.some()
        if member is not None:
            self.harness.storage.failure = errors.NotEnoughReplicasError()
            code = member.beat(False)
            self.harness.storage.failure = None
            assert code in (0, errors.NotEnoughReplicasError.code, *FENCED)

    # --- what always holds

    def group(self) -> StreamsGroup | None:
        found = self.harness.coordinator._store.groups.get("g")
        return found if isinstance(found, StreamsGroup) else None

    def living(self) -> list[Member]:
        """Members whom the coordinator has not put out: the others are to give up all when they hear of it."""
        group = self.group()
        return [one for one in self.members.values() if group is not None and one.id in group.members and one.epoch]

    def check(self) -> None:
        members = self.living()
        active = Counter((name, number) for one in members for name, tasks in one.active.items() for number in tasks)
        assert not [task for task, count in active.items() if count > 1], f"worked on twice: {members}"
        held = Counter(
            (one.process, name, number)
            for one in members
            for tasks in one.owned
            for name, numbers in tasks.items()
            for number in numbers
        )
        assert not [task for task, count in held.items() if count > 1], f"twice in a process: {members}"
        group = self.group()
        for name, member in group.members.items() if group is not None else ():
            assert member.member_epoch >= self.epochs[name], "an epoch went back"
            self.epochs[name] = member.member_epoch
        self.epochs = Counter({name: self.epochs[name] for name in (group.members if group is not None else ())})

    def quiet(self) -> None:
        for _ in range(12):
            for member in self.members.values():
                member.beat(False)
                self.check()
                member.take_up(False)
                self.check()
            self.harness.advance(1)

    def end(self) -> None:
        """When all is quiet, all is assigned."""
        self.harness.storage.failure = None
        for name in list(self.members):
            if self.random.random() < 0.2 and len(self.members) > 1:
                del self.members[name]
        if not self.members:
            self.join()
        for _ in range(8):
            self.harness.advance(8)
            for member in self.members.values():
                member.beat(False)
                member.take_up(False)
                self.check()
        self.quiet()
        self.grow(1.0)
        self.quiet()
        lines = self.harness.topics.topic("lines")
        assert lines is not None
        tasks = {(part, number) for part in "01" for number in range(lines.partitions)}
        held = [flat(one.active) for one in self.members.values()]
        assert set().union(*held) == tasks
        group = self.group()
        assert group is not None
        assert group.state_name == "Stable"
        assert group.members.keys() == self.members.keys()
        before = self.harness.described()
        self.harness.restart()
        assert self.harness.described() == before, "the log says all"


def live(seed: int, steps: int = 120) -> None:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.end()


@pytest.mark.parametrize("seed", range(25))
def test_a_random_life(seed: int) -> None:
    live(seed)


@pytest.mark.parametrize("seed", range(25))
def test_a_random_life_whose_assignments_come_in_pieces(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_assignment, "LARGE", 0)
    monkeypatch.setattr(target_assignment.sticky_assignor, "PIECE", 3)
    live(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_lives(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        live(seed)


# --- planted faults


def gives_before_others_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_assignment, "_is_free", lambda *told: True)


def forgets_who_is_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    original = StreamsGroup.put
    monkeypatch.setattr(
        StreamsGroup, "put", lambda self, member: original(self, member._replace(pending_revocation=NO_ASSIGNED_TASKS))
    )


def does_not_wait_for_revocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_assignment, "_owns_any", lambda owned, tasks: False)


def lets_a_process_have_a_copy_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    original = StreamsGroup.processes_with
    monkeypatch.setattr(
        StreamsGroup,
        "processes_with",
        lambda self, role, part, number: original(self, role, part, number) if role == 0 else frozenset(),
    )


def fences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "check_epoch", lambda *told: None)


def keeps_the_tasks_of_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamsGroup, "_release", lambda self, member: None)


def begins_no_epoch_when_topics_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "metadata_hash", lambda names, image: 7)


def forgets_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat.StreamsMembership, "renew_session", lambda *told: None)


def assigns_only_half(monkeypatch: pytest.MonkeyPatch) -> None:
    original = target_assignment.sticky_assignor.assign_in_pieces

    def half(*told: Any) -> Generator[None, None, dict[str, TasksTuple]]:
        found = yield from original(*told)
        first = next(iter(found))
        return {**found, first: TasksTuple()}

    monkeypatch.setattr(target_assignment.sticky_assignor, "assign_in_pieces", half)


def does_not_write_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def put_target(self: Any, member_id: str, target: TasksTuple) -> None:
        self._changed().targets[member_id] = target

    monkeypatch.setattr("barnabas.broker.groups.streams.draft.StreamsGroupDraft.put_target", put_target)


def takes_any_owned_tasks_for_lost_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_validation, "_is_subset", lambda owned, assigned: True)


def does_not_tell_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_is_told", lambda owned, member: True)


PLANTED = [
    gives_before_others_let_go,
    forgets_who_is_to_give_up,
    does_not_wait_for_revocation,
    lets_a_process_have_a_copy_of_its_own,
    keeps_the_tasks_of_who_left,
    begins_no_epoch_when_topics_grow,
    forgets_the_session,
    assigns_only_half,
    does_not_write_the_target,
    does_not_tell_again,
]


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(200):
        try:
            live(seed)
        except (AssertionError, KeyError):
            return
    pytest.fail(f"{plant.__name__} is not found in 200 lives")


def test_members_that_do_as_they_are_told_settle() -> None:
    harness = StreamsHarness()
    settle(*(harness.member(name) for name in "abcd"))
