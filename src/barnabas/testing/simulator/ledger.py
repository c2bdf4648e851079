"""What the applications of a run did and saw, and what must be true of it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.testing.simulator.world import World

PENDING, ACKNOWLEDGED, FAILED = "pending", "acknowledged", "failed"
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class Sent:
    """A record that an application gave to a producer."""

    __slots__ = ("number", "offset", "origin", "partition", "sent_at", "state", "transaction", "value")

    def __init__(
        self,
        value: bytes,
        origin: str,
        number: int,
        partition: TopicPartition,
        transaction: Transaction | None,
        sent_at: float,
    ) -> None:
        self.value = value
        self.origin = origin
        self.number = number
        self.partition = partition
        self.transaction = transaction
        self.state = PENDING
        self.sent_at = sent_at
        self.offset = -1


class Transaction:
    """A transaction of the producer `origin`; `outcome` is what the application knows of it."""

    __slots__ = ("origin", "outcome", "records")

    def __init__(self, origin: str) -> None:
        self.origin = origin
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


class Membership(NamedTuple):
    """What a member that commits takes itself for."""

    group: str
    member: str
    #: Who it is to the group: processes that are members one after the other, with one group.instance.id, are the same.
    identity: str


#: In place of a member: one of several processes that are the same to the group.
EITHER = ""


class Owner(NamedTuple):
    """Who was last given a partition, in which generation, and when it knew of it."""

    generation: int
    member: str
    since: float


class Ledger:
    """All that the applications say, while the run goes on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: dict[bytes, Sent] = {}
        self.transactions: list[Transaction] = []
        self.sessions: list[Session] = []
        #: What was acknowledged as committed, by group and partition, the highest.
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        #: The last offset that an actor saw committed, by group and partition.
        self.observed: dict[tuple[str, TopicPartition], int] = {}
        #: For how long a coordinator may tell what was committed before, in seconds: one that does not know yet that
        #: another one has taken its place does, in Apache Kafka too.
        self.may_be_old = 0.0
        self._old_since: dict[tuple[str, TopicPartition], float] = {}
        #: Who was given a partition, by group, generation and partition.
        self.owners: dict[tuple[str, int, TopicPartition], str] = {}
        #: Who was given a partition in the latest generation of all, by group and partition.
        self.latest_owner: dict[tuple[str, TopicPartition], Owner] = {}
        #: The producers that got a transactional id, by that, and since when those were shut out that were.
        self.producers: defaultdict[str, list[str]] = defaultdict(list)
        self.shut_out: dict[str, float] = {}
        #: Whether the power may take what was acknowledged: positions and generations may then begin anew.
        self.loses_unflushed = False

    # --- producing

    def sending(
        self, value: bytes, origin: str, number: int, partition: TopicPartition, transaction: Transaction | None = None
    ) -> Sent:
        """Note a record that is about to be sent."""
        sent = Sent(value, origin, number, partition, transaction, self.world.now)
        self.sent[value] = sent
        if transaction is not None:
            transaction.records.append(sent)
        self.world.counts["records sent"] += 1
        return sent

    def delivered(self, sent: Sent, offset: int, error: BaseException | None) -> None:
        """Note that the producer has said what became of a record."""
        if sent.state != PENDING:
            self.world.violate(f"{sent.value!r} was answered twice: {sent.state}, then offset {offset}, {error!r}")
        if error is None:
            sent.state, sent.offset = ACKNOWLEDGED, offset
            self.world.counts["records acknowledged"] += 1
            self._check_not_shut_out(sent.origin, sent.sent_at, f"{sent.value[:60]!r} was acknowledged")
        else:
            sent.state = FAILED
            self.world.counts["records failed"] += 1

    def begin(self, origin: str) -> Transaction:
        """Return a producer begins a transaction."""
        transaction = Transaction(origin)
        self.transactions.append(transaction)
        return transaction

    def committed_transaction(self, transaction: Transaction, asked_at: float) -> None:
        """Note that the commit of a transaction was acknowledged, which was asked for at a time."""
        transaction.outcome = COMMITTED
        self.world.counts["transactions committed"] += 1
        if transaction.records:
            origin = transaction.origin
            self._check_not_shut_out(origin, asked_at, f"a transaction of {origin} was committed")

    @contextmanager
    def taking_over(self, transactional_id: str, origin: str | None) -> Iterator[None]:
        """Note that a producer, or an operator, gets a transactional id: the one before is fenced then."""
        before = list(self.producers[transactional_id])
        yield
        for shut_out in before:
            self.shut_out.setdefault(shut_out, self.world.now)
        if origin is not None:
            self.producers[transactional_id].append(origin)

    def _check_not_shut_out(self, origin: str, asked_at: float, what: str) -> None:
        since = self.shut_out.get(origin)
        if since is not None and since < asked_at:
            self.world.violate(
                f"{what}, which it was asked for at {asked_at:.4f}; but another producer had its id since {since:.4f}"
            )

    # --- consuming

    def assigned(self, who: Membership, generation: int, partitions: Iterable[TopicPartition]) -> None:
        """Note that a member was given partitions in a generation: no other member may have them in it."""
        for partition in partitions:
            owner = self.owners.setdefault((who.group, generation, partition), who.identity)
            if owner != who.identity and not self.loses_unflushed:
                self.world.violate(
                    f"{partition} belongs to both {owner} and {who.identity} in generation {generation} "
                    f"of group {who.group}"
                )
            latest = self.latest_owner.get((who.group, partition))
            if latest is not None and latest.generation == generation and latest.member != who.member:
                # Processes with one group.instance.id, of which the group took one after the other; the answers to
                # them may have passed each other on the way, so which of them it was last is not known here.
                self.latest_owner[who.group, partition] = latest._replace(member=EITHER)
            elif latest is None or generation >= latest.generation:
                self.latest_owner[who.group, partition] = Owner(generation, who.member, self.world.now)

    def session(self, group: str, member: str, generation: int, partition: TopicPartition) -> Session:
        """Return a member begins to read a partition."""
        committed = self.committed.get((group, partition), 0)
        session = Session(group, member, generation, partition, committed)
        self.sessions.append(session)
        return session

    def read(self, session: Session, offset: int, value: bytes) -> None:
        """Check a record that a member was handed: after the one before, not before what was committed."""
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

    def commit_acknowledged(
        self, who: Membership, offsets: Iterable[tuple[TopicPartition, int]], asked_at: float
    ) -> None:
        """Check an acknowledged commit: when it was asked for, no other member may have had the partitions."""
        self.world.counts["commits"] += 1
        for partition, offset in offsets:
            key = who.group, partition
            self.committed[key] = max(self.committed.get(key, 0), offset)
            owner = self.latest_owner.get(key)
            if owner is None or owner.member in (who.member, EITHER):
                continue
            if owner.since >= asked_at or self.loses_unflushed:
                continue
            self.world.violate(
                f"{who.member} of group {who.group} committed {offset} of {partition}, which it asked for at "
                f"{asked_at:.4f}; but {owner.member} had it since {owner.since:.4f} (generation {owner.generation})"
            )

    def committed_of(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return what must be seen committed from now on, at least: what was acknowledged, or seen before."""
        keys = {partition: (group, partition) for partition in partitions}
        return {at: max(self.committed.get(key, 0), self.observed.get(key, 0)) for at, key in keys.items()}

    def commit_observed(self, group: str, partition: TopicPartition, offset: int, at_least: int) -> None:
        """Note what an actor was told is committed: not less than what `committed_of` said before that.

        What others saw meanwhile says nothing of it: an answer may be long on its way.
        """
        self.world.counts["committed offsets looked up"] += 1
        key = group, partition
        if offset >= at_least or self.loses_unflushed:
            self._old_since.pop(key, None)
        elif self.world.now - self._old_since.setdefault(key, self.world.now) >= self.may_be_old:
            self.world.violate(f"group {group} has committed {offset} of {partition}, after {at_least}")
        else:
            self.world.counts["old commits that a coordinator told"] += 1
        self.observed[key] = max(offset, self.observed.get(key, 0))
