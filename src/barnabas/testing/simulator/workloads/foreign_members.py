"""Members that speak KIP-848's protocol by themselves, and not as well as they should.

They keep partitions that they are to give up, ask as who they were some epochs ago, and commit from an epoch in which
a partition was not theirs. A broker has to put the first out when the rebalance's time is over, and to refuse the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas import errors
from barnabas.client.admin.new_topic import NewTopic
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.protocol.kafka_uuid import random_uuid, to_text
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.testing.simulator.actors import Actor
from barnabas.testing.simulator.workloads.raw_connection import LostError, RawConnection
from barnabas.testing.simulator.workloads.reign import of_coordinator
from barnabas.testing.simulator.workloads.workload import Workload

if TYPE_CHECKING:
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.consumer_group_heartbeat_response import Assignment
    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.parts import ServedParts
    from barnabas.testing.simulator.workloads.reign import Reign

TOPIC, PARTITIONS, GROUP = "foreign", 4, "strangers"
_HEARTBEAT_VERSION, _COMMIT_VERSION = 1, 9
#: How much longer than the rebalance's time a member may keep what it is to give up: a few turns of a slow broker.
_SLACK = 5.0
_TO_JOIN_AGAIN = (
    errors.UnknownMemberIdError.code,
    errors.FencedMemberEpochError.code,
    errors.GroupIdNotFoundError.code,
)

Partition = tuple[bytes, int]


class ForeignMember(Actor):
    """One life after the other as a member of the group; a stubborn one gives nothing up."""

    def __init__(self, application: Application, number: int, *, rebalance_timeout: float, reign: Reign) -> None:
        super().__init__(application, number)
        self._reign = reign
        self._rebalance_timeout = rebalance_timeout

    def live(self, life: str) -> None:
        """See `Actor`."""
        self._connection = RawConnection(self.network, life, GROUP)
        while not self.is_stopping:
            self._be_a_member()
            self.pause(1.0)
        self._connection.close()

    def _be_a_member(self) -> None:
        self._id = to_text(random_uuid(self.random))
        self._is_stubborn = self.random.random() < 0.4
        self._epoch = JOIN_EPOCH
        #: The epochs that this member has been in, the latest last.
        self._epochs: list[int] = []
        #: The epoch of the first heartbeat whose answer was lost since it was told an assignment; None if none was.
        self._untold_since: int | None = None
        #: What it has, with the epoch from which on the group may have given it; and what of that it is to give up.
        self._owned: dict[Partition, int] = {}
        self._to_give_up: set[Partition] = set()
        self._told_at = self._last_answer = self.world.now
        until = self.world.now + self.random.uniform(3, 16)
        while not self.is_stopping and (self.world.now < until or self._to_give_up):
            if not self._beat():
                return
            if self._owned and self.random.random() < 0.3:
                self._commit()
            if len(self._epochs) > 2 and self.random.random() < 0.1:
                self._beat_from_the_past()
            self.clients.pause(0.1 + self.random.random() * 0.5)
        self._call(self._heartbeat(LEAVE_EPOCH))

    # --- heartbeats

    def _heartbeat(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        joins = epoch == JOIN_EPOCH
        topics: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(self._owned):
            topics.setdefault(topic_id, []).append(index)
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._id,
            member_epoch=epoch,
            rebalance_timeout_ms=int(self._rebalance_timeout * 1000) if joins else -1,
            subscribed_topic_names=[TOPIC] if joins else None,
            topic_partitions=[TopicPartitions(topic_id=topic, partitions=found) for topic, found in topics.items()],
        )

    def _beat(self) -> bool:
        """Send a heartbeat and do what the answer says; False when the group has put this member out."""
        answer = self._call(self._heartbeat(self._epoch))
        if answer is None or self.network.has_faulty_disk or not self._reign.is_sure:
            # Who cannot be put out for want of a disk stays, and a new coordinator begins its watch anew.
            self._told_at = self.world.now
        if answer is None:
            if self._untold_since is None:
                self._untold_since = self._epoch
            return True
        if answer.error_code in _TO_JOIN_AGAIN:
            self.world.counts["foreign members put out"] += 1
            return False
        if answer.error_code:
            return True
        self._check_given_up()
        if answer.member_epoch != self._epoch:
            self._epochs.append(answer.member_epoch)
            self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._on_assignment(answer.assignment)
        return True

    def _on_assignment(self, assignment: Assignment) -> None:
        target = {(topic.topic_id, index) for topic in assignment.topic_partitions for index in topic.partitions}
        # What a lost answer told is not told again before something else changes: the group knows it since then.
        since = self._epoch if self._untold_since is None else self._untold_since
        self._untold_since = None
        self._owned.update(dict.fromkeys(target - self._owned.keys(), since))
        to_give_up = self._owned.keys() - target
        if to_give_up != self._to_give_up:
            self._told_at = self.world.now
        if not self._is_stubborn:
            for partition in to_give_up:
                del self._owned[partition]
            to_give_up = set()
        elif to_give_up:
            self.world.counts["partitions that a foreign member keeps"] += 1
        self._to_give_up = set(to_give_up)

    def _check_given_up(self) -> None:
        gap, self._last_answer = self.world.now - self._last_answer, self.world.now
        if not self._to_give_up or gap > 1.0:
            self._told_at = max(self._told_at, self.world.now) if gap > 1.0 else self._told_at
            return
        kept_for = self.world.now - self._told_at
        if kept_for > self._rebalance_timeout + _SLACK:
            self.world.violate(
                f"{self.life} was told {kept_for:.1f} s ago to give up {len(self._to_give_up)} partitions, still has "
                f"them, and is still a member; its rebalance.timeout.ms is {self._rebalance_timeout * 1000:.0f}"
            )

    def _beat_from_the_past(self) -> None:
        """Ask as who this member was before its last two epochs: as if a packet had been on its way since then."""
        epoch = self.random.choice(self._epochs[:-2])
        answer = self._call(self._heartbeat(epoch))
        if answer is not None and not answer.error_code and epoch < self._epochs[-2] and self._reign.is_sure:
            self.world.violate(f"{self.life} is in epoch {self._epoch}, and was taken for a member in epoch {epoch}")
        self.world.counts["heartbeats from the past"] += 1

    # --- commits

    def _commit(self) -> None:
        """Commit an offset of a partition, often from an earlier epoch; from one in which it was another's it fails."""
        partition = self.random.choice(sorted(self._owned))
        since = self._owned[partition]
        epoch = self.random.choice(self._epochs[-4:])
        at = OffsetCommitRequestPartition(partition_index=partition[1], committed_offset=self.random.randrange(1000))
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=self._id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[at])],
        )
        answer = self._call(request, _COMMIT_VERSION)
        if answer is None:
            return
        code = answer.topics[0].partitions[0].error_code
        if epoch < since:
            self.world.counts["commits from before the assignment"] += 1
        if not code and epoch < since:
            self.world.violate(
                f"{self.life} committed an offset of {TOPIC}-{partition[1]} from epoch {epoch}; it has the partition "
                f"since epoch {since}"
            )

    def _call(self, message: Message, version: int = _HEARTBEAT_VERSION) -> Any:
        try:
            return self._connection.call(message, version)
        except LostError as problem:
            self.note(f"foreign member: {problem}")
            self.clients.pause(0.1)
            return None


class ForeignMembers(Workload):
    """A group of them."""

    parts: ServedParts

    def topics(self) -> list[NewTopic]:
        """See `Workload`."""
        return [NewTopic(TOPIC, PARTITIONS, self.parts.replicas)]

    def cast(self) -> None:
        """See `Workload`. Where the power takes epochs that were told, an earlier one may be the member's again."""
        if self.parts.ledger.loses_unflushed:
            return
        reign = of_coordinator(self.parts, GROUP)
        for number in range(3):
            timeout = self.random.choice((1.0, 3.0))
            self.parts.add(ForeignMember, f"foreign{number}", rebalance_timeout=timeout, reign=reign)
