"""Applications that are members of groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas import aio
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupIdNotFoundError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    RetriableError,
    UnreleasedInstanceIdError,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.event_loop import coroutine
from barnabas.testing.simulator.ledger import Membership, Session

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer import Consumer
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.testing.simulator.actors import Application

Offsets = dict[TopicPartition, int]


class MemberListener(ConsumerRebalanceListener):
    """Keeps a session for each partition that a member has, and commits before one is given up."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        self._member.assigned(partitions)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        member = self._member
        offsets = member.revoking(partitions)
        if offsets:
            with member.committing("commit while revoking", offsets):
                member.consumer.commit(offsets, timeout=2.0)
        member.forget(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        self._member.lost(partitions)


class LoopListener(aio.ConsumerRebalanceListener):
    """The same in an event loop, where it waits for the commit as coroutines do."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        self._member.assigned(partitions)

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        member = self._member
        offsets = member.revoking(partitions)
        if offsets:
            with member.committing("commit while revoking", offsets):
                await coroutine(member.consumer, "commit")(offsets, timeout=2.0)
        member.forget(partitions)

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        self._member.lost(partitions)


class GroupMember(Actor):
    """A member of a group: reads, commits what it has read, leaves after at most `stay` seconds, and comes back.

    `is_static` gives it a group.instance.id, which all its processes share.
    """

    IN_LOOP = 0.4

    def __init__(
        self,
        application: Application,
        number: int,
        *,
        group: str,
        topics: dict[str, int],
        settings: dict[str, Any],
        auto_commits: bool,
        stay: float,
        is_static: bool,
    ) -> None:
        super().__init__(application, number)
        # Commits have no numbers: in Apache Kafka, too, one that was given up, and comes late on its old connection,
        # replaces a later one of the same member.
        self.process.resets_connections = True
        self.group = group
        self.topics = topics
        self.settings = {**settings, "group_instance_id": self.name} if is_static else settings
        self.auto_commits = auto_commits
        self.stay = stay
        self.is_static = is_static
        self.who = Membership(group, "", "")
        self.sessions: dict[TopicPartition, Session] = {}
        self.next_offsets: Offsets = {}
        self.consumer: Consumer
        #: Until when the application does nothing, while its client goes on with its heartbeats.
        self.hangs_until = 0.0

    def live(self, life: str) -> None:
        """See `Actor`."""
        made = 0
        while not self.is_stopping:
            made += 1
            member = f"{life}.{made}"
            self.who = Membership(self.group, member, self.name if self.is_static else member)
            self.consumer = self.clients.consumer(
                bootstrap_servers=BOOTSTRAP,
                client_id=member,
                group_id=self.group,
                enable_auto_commit=self.auto_commits,
                auto_offset_reset="earliest",
                **self.settings,
            )
            # What is called as the one for threads takes the listener of its own kind.
            listener: Any = LoopListener(self) if self.clients.in_loop else MemberListener(self)
            self.consumer.subscribe(list(self.topics), listener)
            try:
                self._be_a_member(until=self.world.now + self.random.uniform(2, self.stay))
            except (FencedInstanceIdError, UnreleasedInstanceIdError) as problem:
                self._shut_out(problem)
                if self.is_superseded:
                    return
                self.pause(2.0)

    def _be_a_member(self, until: float) -> None:
        try:
            while not self.is_stopping and self.world.now < until:
                if self.hangs_until > self.world.now:
                    self.clients.pause(self.hangs_until - self.world.now)
                self.turn()
        finally:
            self.close()
            self.sessions.clear()
            self.next_offsets.clear()

    def _shut_out(self, problem: KafkaError) -> None:
        self.failed("static member", problem)
        if not self.is_static:
            self.world.violate(f"{self.who.member} has no group.instance.id, and was shut out: {problem}")

    def turn(self) -> None:
        """Read, and perhaps commit."""
        consumer, random = self.consumer, self.random
        for record in consumer.poll(random.choice((0.0, 0.05, 0.3, 1.0))):
            session = self.session_of(record)
            if session is None:
                return
            self.ledger.read(session, record.offset, record.value or b"")
            self.next_offsets[session.partition] = record.offset + 1
        if not self.auto_commits and random.random() < 0.4:
            self._commit()
        if random.random() < 0.6:
            self.pause(0.8)

    def session_of(self, record: ConsumerRecord[Any, Any]) -> Session | None:
        """Return the session that a record belongs to; there must be one."""
        partition = TopicPartition(record.topic, record.partition)
        session = self.sessions.get(partition)
        if session is None:
            self.world.violate(f"{self.who.member} was handed a record of {partition}, which it does not have")
        return session

    # --- commits

    def _commit(self) -> None:
        offsets = dict(self.next_offsets)
        if not offsets:
            return
        if self.random.random() < 0.5:
            self._commit_async(offsets)
            return
        with self.committing("commit of offsets", offsets):
            self.consumer.commit(offsets, timeout=5.0)

    def _commit_async(self, offsets: Offsets) -> None:
        who, asked_at = self.who, self.world.now

        def committed(_: object, error: BaseException | None) -> None:
            if error is None:
                self.ledger.commit_acknowledged(who, offsets.items(), asked_at)
            else:
                self.world.counts[f"asynchronous commit: {type(error).__name__}"] += 1

        self.consumer.commit_async(offsets, committed)

    @contextmanager
    def committing(self, what: str, offsets: Offsets) -> Iterator[None]:
        """Tell the ledger of a commit that succeeds within, and take the errors that are a part of life."""
        asked_at = self.world.now
        try:
            yield
        except (CommitFailedError, RebalanceInProgressError, KafkaTimeoutError, FencedInstanceIdError) as problem:
            # The next call tells once more that the member was fenced.
            self.failed(what, problem)
        except GroupIdNotFoundError as problem:
            self._without_group(problem)
        else:
            self.ledger.commit_acknowledged(self.who, offsets.items(), asked_at)

    def _without_group(self, problem: GroupIdNotFoundError) -> None:
        # As in Apache Kafka it tells the application, but a group only vanishes with what the power takes.
        self.failed("commit of offsets", problem)
        if not self.ledger.loses_unflushed:
            self.world.violate(f"group {self.group} has vanished")

    # --- rebalances

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions were given to this member."""
        generation = self.consumer.group_metadata().generation_id
        names = ", ".join(map(str, sorted(partitions)))
        self.note(f"{self.who.member} gets {names or 'nothing'} in generation {generation}")
        self.world.counts["assignments"] += 1
        self.ledger.assigned(self.who, generation, self.consumer.assignment())
        for partition in sorted(partitions):
            self.sessions[partition] = self.ledger.session(self.group, self.who.member, generation, partition)

    def revoking(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Partitions have to be given up; what is to be committed of them."""
        self.note(f"{self.who.member} gives up {', '.join(map(str, sorted(partitions))) or 'nothing'}")
        if not partitions or self.auto_commits or self.random.random() >= 0.8:
            return {}
        given_up = set(partitions)
        return {partition: offset for partition, offset in self.next_offsets.items() if partition in given_up}

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are gone already."""
        self.note(f"{self.who.member} has lost {', '.join(map(str, sorted(partitions)))}")
        self.world.counts["partitions lost"] += len(partitions)
        self.forget(partitions)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are no longer this member's."""
        for partition in partitions:
            self.sessions.pop(partition, None)
            self.next_offsets.pop(partition, None)

    def close(self) -> None:
        """Leave the group, in good order."""
        self.note(f"{self.who.member} leaves")
        try:
            self.consumer.close(10.0)
        except (CommitFailedError, RebalanceInProgressError, RetriableError, FencedInstanceIdError) as problem:
            self.failed("close", problem)
        except GroupIdNotFoundError as problem:
            self._without_group(problem)
