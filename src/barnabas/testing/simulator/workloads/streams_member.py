"""A member of a streams group that speaks KIP-1071's protocol by itself, and what all of them were told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import errors
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.protocol.kafka_uuid import random_uuid, to_text
from barnabas.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from barnabas.testing.simulator.workloads.raw_connection import LostError, RawConnection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from barnabas.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
    from barnabas.protocol.messages.streams_group_heartbeat_response import TaskIds as ToldTasks
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.workloads.reign import Reign
    from barnabas.testing.simulator.world import World

GROUP, INPUT, REPARTITION, CHANGELOG = (
    "streamer",
    "streamed",
    "streamer-by-word-repartition",
    "streamer-count-changelog",
)
TOPOLOGY_EPOCH = 1
REBALANCE_TIMEOUT = 5.0
#: The parts of the topology: one reads and sends to a repartition topic, the other counts.
READING, COUNTING = "0", "1"
_VERSION = 0
_STALE_TOPOLOGY = 0
_TO_JOIN_AGAIN = (
    errors.UnknownMemberIdError.code,
    errors.FencedMemberEpochError.code,
    errors.GroupIdNotFoundError.code,
)

Task = tuple[str, int]
Tasks = frozenset[Task]
_NONE: Tasks = frozenset()


class Roles(NamedTuple):
    """Tasks that a member works on, and those of which it keeps a copy."""

    active: Tasks = _NONE
    standby: Tasks = _NONE


class Holder(NamedTuple):
    """Who was given a task last, and when it knew of it; no member where two answers may have passed each other."""

    member: str
    since: float


class Hands:
    """Who was told to work on which task, in which epoch."""

    def __init__(self, world: World, reign: Reign) -> None:
        self._world = world
        self._reign = reign
        self._by_epoch: dict[tuple[int, Task], str] = {}
        self._holders: dict[Task, Holder] = {}

    def accepted(self, member: str, held: Tasks, asked_at: float) -> None:
        """Check what a member held when it asked, as one that is a member still: none of it was another's before."""
        for task in sorted(held):
            holder = self._holders.get(task)
            if holder is None or holder.member in ("", member) or holder.since >= asked_at:
                continue
            if self._reign.is_sure:
                self._world.violate(
                    f"{member} held streams task {task} at {asked_at:.4f}, and is a member still; but {holder.member} "
                    f"has it since {holder.since:.4f}"
                )

    def told(self, member: str, epoch: int, tasks: Tasks, new: Tasks, asked_at: float) -> None:
        """Note what a member was told that it works on, and which of that is `new`; one member has it in an epoch."""
        for task in sorted(tasks):
            owner = self._by_epoch.setdefault((epoch, task), member)
            if owner != member:
                self._world.violate(f"streams task {task} belongs to both {owner} and {member} in epoch {epoch}")
        for task in sorted(new):
            holder = self._holders.get(task)
            passed = holder is not None and holder.member != member and holder.since > asked_at
            self._holders[task] = Holder("" if passed else member, self._world.now)
            self._world.counts["streams tasks given"] += 1


class StreamsMember:
    """Who is told tasks gives up what is no longer its own, at once or some beats later, and then takes the rest."""

    def __init__(self, world: World, network: Network, hands: Hands, random: Random, name: str) -> None:
        self._world = world
        self._hands = hands
        self._random = random
        self._name = name
        self._connection = RawConnection(network, name, GROUP)
        self.begin()

    def begin(self, *, topology_epoch: int = TOPOLOGY_EPOCH) -> None:
        """Be another member, which has not joined yet."""
        self.id = f"{self._name}-{to_text(random_uuid(self._random))}"
        self._epoch = JOIN_EPOCH
        self._topology_epoch = topology_epoch
        self.owned = self._told = Roles()
        self._reported: Roles | None = None

    def beat(self) -> bool:
        """Send a heartbeat and do what the answer says; False when the group has put this member out."""
        if self._told != self.owned and self._random.random() < 0.7:
            self.owned = self._told
        owned, asked_at = self.owned, self._world.now
        answer = self._call(self._heartbeat())
        if answer is None:
            self._reported = None
            return True
        if answer.error_code:
            self._reported = None
            return answer.error_code not in _TO_JOIN_AGAIN
        self._reported = owned
        self._check(answer)
        self._hands.accepted(self.id, owned.active, asked_at)
        before = self._told
        if answer.active_tasks is not None:
            self._told = Roles(_tasks(answer.active_tasks), _tasks(answer.standby_tasks or ()))
        self._epoch = answer.member_epoch
        new = self._told.active - before.active
        self._hands.told(self.id, self._epoch, self._told.active, new, asked_at)
        return True

    def _check(self, answer: StreamsGroupHeartbeatResponse) -> None:
        if answer.member_epoch < self._epoch:
            self._world.violate(f"{self.id} was in epoch {self._epoch}, and is in epoch {answer.member_epoch}")
        is_told = any(status.status_code == _STALE_TOPOLOGY for status in answer.status or ())
        is_stale = self._topology_epoch < TOPOLOGY_EPOCH
        if is_told != is_stale:
            self._world.violate(f"{self.id} has topology {self._topology_epoch}, and is told {answer.status}")
        self._world.counts["streams members with an old topology"] += is_stale

    def leave(self) -> None:
        """Go in good order, if the coordinator can be reached."""
        if self._epoch != JOIN_EPOCH:
            request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.id, member_epoch=LEAVE_EPOCH)
            self._call(request)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _heartbeat(self) -> StreamsGroupHeartbeatRequest:
        request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.id, member_epoch=self._epoch)
        joins = self._epoch == JOIN_EPOCH
        if joins:
            self.owned = Roles()
            request.topology = _topology(self._topology_epoch)
            request.process_id = self._name
            request.rebalance_timeout_ms = int(REBALANCE_TIMEOUT * 1000)
            request.client_tags = []
        if joins or self.owned != self._reported:
            request.active_tasks, request.standby_tasks = map(_task_ids, self.owned)
            request.warmup_tasks = []
        return request

    def _call(self, message: StreamsGroupHeartbeatRequest) -> Any:
        try:
            return self._connection.call(message, _VERSION)
        except LostError as problem:
            self._world.note(self._name, f"streams member: {problem}")
            return None


def _topology(epoch: int) -> Topology:
    reading = Subtopology(subtopology_id=READING, source_topics=[INPUT], repartition_sink_topics=[REPARTITION])
    counting = Subtopology(
        subtopology_id=COUNTING,
        repartition_source_topics=[TopicInfo(REPARTITION)],
        state_changelog_topics=[TopicInfo(CHANGELOG)],
    )
    return Topology(epoch, [reading, counting])


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [
        TaskIds(part, numbers)
        for part in (READING, COUNTING)
        if (numbers := sorted(number for found, number in tasks if found == part))
    ]


def _tasks(told: Sequence[ToldTasks]) -> Tasks:
    return frozenset((one.subtopology_id, number) for one in told for number in one.partitions)
