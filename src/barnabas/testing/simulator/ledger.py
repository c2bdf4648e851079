"""What the applications of a run did and saw, and what must be true of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.testing.simulator.world import World

PENDING, ACKNOWLEDGED, FAILED = "pending", "acknowledged", "failed"
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class Sent:
    """A record that an application gave to a producer."""

    __slots__ = ("acked_at", "number", "offset", "origin", "partition", "state", "transaction", "value")

    def __init__(
        self, value: bytes, origin: str, number: int, partition: TopicPartition, transaction: Transaction | None
    ) -> None:
        self.value = value
        self.origin = origin
        self.number = number
        self.partition = partition
        self.transaction = transaction
        self.state = PENDING
        self.offset = -1
        self.acked_at = 0.0


class Transaction:
    """A transaction of an application; `outcome` is what the application knows of it."""

    __slots__ = ("name", "outcome", "records")

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcome = UNKNOWN
        self.records: list[Sent] = []


class Session:
    """What one member of a group read of one partition, from getting it to giving it up."""

    __slots__ = ("committed_before", "generation", "group", "member", "partition", "records")

    def __init__(self, group: str, member: str, generation: int, partition: TopicPartition, committed: int) -> None:
        self.group = group
        self.member = member
        self.generation = generation
        self.partition = partition
        self.committed_before = committed
        self.records: list[tuple[int, bytes]] = []


class Ledger:
    """All that the applications say, while the run goes on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: dict[bytes, Sent] = {}
        self.transactions: list[Transaction] = []
        self.sessions: list[Session] = []
        #: What was acknowledged as committed, by group and partition, the highest.
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        #: The last offset that somebody saw committed, by group and partition.
        self.observed: dict[tuple[str, TopicPartition], int] = {}
        #: Who was given a partition, by group, generation and partition.
        self.owners: dict[tuple[str, int, TopicPartition], str] = {}
        #: Whether the power may take what was acknowledged: positions and generations may then begin anew.
        self.loses_unflushed = False

    # --- producing

    def sending(
        self, value: bytes, origin: str, number: int, partition: TopicPartition, transaction: Transaction | None = None
    ) -> Sent:
        """A record is about to be sent."""
        sent = Sent(value, origin, number, partition, transaction)
        self.sent[value] = sent
        if transaction is not None:
            transaction.records.append(sent)
        self.world.counts["records sent"] += 1
        return sent

    def delivered(self, sent: Sent, offset: int, error: BaseException | None) -> None:
        """The producer has said what became of a record."""
        if sent.state != PENDING:
            self.world.violate(f"{sent.value!r} was answered twice: {sent.state}, then offset {offset}, {error!r}")
        if error is None:
            sent.state, sent.offset, sent.acked_at = ACKNOWLEDGED, offset, self.world.now
            self.world.counts["records acknowledged"] += 1
        else:
            sent.state = FAILED
            self.world.counts["records failed"] += 1

    def begin(self, name: str) -> Transaction:
        """A transaction begins."""
        transaction = Transaction(name)
        self.transactions.append(transaction)
        return transaction

    # --- consuming

    def assigned(self, group: str, member: str, generation: int, partitions: Iterable[TopicPartition]) -> None:
        """A member was given partitions in a generation: nobody else may have them in it."""
        for partition in partitions:
            owner = self.owners.setdefault((group, generation, partition), member)
            if owner != member and not self.loses_unflushed:
                self.world.violate(
                    f"{partition} belongs to both {owner} and {member} in generation {generation} of group {group}"
                )

    def session(self, group: str, member: str, generation: int, partition: TopicPartition) -> Session:
        """A member begins to read a partition."""
        committed = self.committed.get((group, partition), 0)
        session = Session(group, member, generation, partition, committed)
        self.sessions.append(session)
        return session

    def read(self, session: Session, offset: int, value: bytes) -> None:
        """A member was handed a record: after the one before, and not before what was committed when it began."""
        last = session.records[-1][0] if session.records else session.committed_before - 1
        if offset <= last and self.loses_unflushed:
            session.records.clear()
        elif offset <= last:
            self.world.violate(
                f"{session.member} of group {session.group} (generation {session.generation}) was handed "
                f"offset {offset} of {session.partition} after {last}"
            )
        session.records.append((offset, value))
        self.world.counts["records read by groups"] += 1

    def commit_acknowledged(self, group: str, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        """A commit was acknowledged."""
        self.world.counts["commits"] += 1
        for partition, offset in offsets:
            key = group, partition
            self.committed[key] = max(self.committed.get(key, 0), offset)

    def commit_observed(self, group: str, partition: TopicPartition, offset: int, at_least: int) -> None:
        """Somebody asked what is committed: not less than was acknowledged before, or seen before."""
        self.world.counts["committed offsets looked up"] += 1
        key = group, partition
        least = max(at_least, self.observed.get(key, -1))
        if offset < least and not self.loses_unflushed:
            self.world.violate(f"group {group} has committed {offset} of {partition}, after {least}")
        self.observed[key] = max(offset, self.observed.get(key, -1))
