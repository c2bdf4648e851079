"""At the end of a run: what the logs hold, held against what the applications know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.actors import BOOTSTRAP
from barnabas.testing.simulator.ledger import ABORTED, ACKNOWLEDGED, COMMITTED, Sent

if TYPE_CHECKING:
    from barnabas.testing.simulator.clients import Clients
    from barnabas.testing.simulator.ledger import Ledger, Session
    from barnabas.testing.simulator.world import World

Content = dict[TopicPartition, list[tuple[int, bytes]]]


def read_all(
    world: World, clients: Clients, partitions: list[TopicPartition], isolation: str, patience: float
) -> Content:
    """Everything that a new consumer can read.

    Readers of committed records, too, have to come to where the logs end now: no transaction stays open for ever.
    """
    content: Content = {partition: [] for partition in partitions}
    with clients.consumer(bootstrap_servers=BOOTSTRAP, client_id="auditor") as consumer:
        ends = consumer.end_offsets(partitions, timeout=patience)
    with clients.consumer(
        bootstrap_servers=BOOTSTRAP,
        client_id=f"auditor-{isolation}",
        isolation_level=isolation,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        give_up_at = world.now + patience
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for record in consumer.poll(0.2):
                content[TopicPartition(record.topic, record.partition)].append((record.offset, record.value or b""))
            if world.now > give_up_at:
                positions = {str(tp): (consumer.position(tp), ends[tp]) for tp in partitions}
                world.violate(f"no progress: the logs cannot be read to their ends: {positions}")
                return content
    return content


class Audit:
    """What is stored, by partition: for readers of everything, and for readers of committed records.

    `losses` has for each loss of power, by partition, the offset before which all was on the disk.
    """

    def __init__(
        self, ledger: Ledger, losses: list[dict[TopicPartition, int]], everything: Content, committed: Content
    ) -> None:
        self._ledger = ledger
        self._violate = ledger.world.violate
        self._everything = everything
        self._committed = committed
        self._losses = losses

    def check(self, *, strict: bool) -> None:
        """Hold the logs against what was sent. Without `strict` the power took what was not flushed."""
        self._check_order()
        self._check_acknowledged(strict)
        if strict:
            self._check_transactions()
            self._check_transformed()
        self._check_isolation()

    def _check_order(self) -> None:
        """Nothing is invented, nothing is there twice, and the records of one producer are in order."""
        for partition, records in self._everything.items():
            seen: dict[bytes, int] = {}
            last: dict[str, Sent] = {}
            for offset, value in records:
                sent = self._ledger.sent.get(value)
                if sent is None or sent.partition != partition:
                    self._violate(f"{partition} holds {value[:60]!r} at offset {offset}, which was never sent there")
                    continue
                if value in seen:
                    self._violate(f"{partition} holds {value[:60]!r} twice, at {seen[value]} and {offset}")
                seen[value] = offset
                before = last.get(sent.origin)
                if before is not None and before.number > sent.number:
                    self._violate(
                        f"{partition} holds record {sent.number} of {sent.origin} at {offset}, "
                        f"after its {before.number}"
                    )
                last[sent.origin] = sent

    def _check_acknowledged(self, strict: bool) -> None:
        """Check that what was acknowledged is at the offset that was told."""
        stored = {partition: dict(records) for partition, records in self._everything.items()}
        for sent in self._ledger.sent.values():
            if sent.state != ACKNOWLEDGED or sent.partition not in stored:
                continue
            found = stored[sent.partition].get(sent.offset)
            if found != sent.value and not self._may_be_lost(sent, strict):
                self._violate(
                    f"{sent.value[:60]!r} was acknowledged at offset {sent.offset} of {sent.partition}, "
                    f"which holds {found[:60] if found is not None else found!r}"
                )

    def _may_be_lost(self, sent: Sent, strict: bool) -> bool:
        if strict:
            return False
        return any(sent.offset >= safe.get(sent.partition, 0) for safe in self._losses)

    def _check_transactions(self) -> None:
        """Demand that all of a committed transaction is visible, of an aborted one nothing, else all or nothing."""
        visible = {value for records in self._committed.values() for _, value in records}
        for transaction in self._ledger.transactions:
            found = [sent for sent in transaction.records if sent.value in visible]
            missing = [sent for sent in transaction.records if sent.value not in visible]
            if transaction.outcome == ABORTED and found:
                self._violate(f"{found[0].value[:60]!r} belongs to an aborted transaction, and is visible")
            elif transaction.outcome == COMMITTED and missing:
                self._violate(f"{missing[0].value[:60]!r} belongs to a committed transaction, and is not visible")
            elif found and any(sent.state == ACKNOWLEDGED for sent in missing):
                self._violate(
                    f"half a transaction is visible: {found[0].value[:60]!r}, but not {missing[0].value[:60]!r}"
                )

    def _check_isolation(self) -> None:
        """Readers of committed records see a part of what others see; outside of transactions all of it."""
        for partition, records in self._everything.items():
            visible = dict(self._committed[partition])
            whole = dict(records)
            for offset, value in visible.items():
                if whole.get(offset) != value:
                    self._violate(f"read_committed shows {value[:60]!r} at {offset} of {partition}, others do not")
            for offset, value in whole.items():
                sent = self._ledger.sent.get(value)
                if sent is not None and sent.transaction is None and offset not in visible:
                    self._violate(f"read_committed hides {value[:60]!r} at {offset} of {partition}")

    def _check_transformed(self) -> None:
        """Of each record that was read, at most one result is visible."""
        results: dict[bytes, bytes] = {}
        for source, value in self._results():
            if source in results:
                self._violate(f"{source!r} was transformed twice: {results[source][:60]!r} and {value[:60]!r}")
            results[source] = value

    def _results(self) -> Iterator[tuple[bytes, bytes]]:
        """Return what each visible result was made of, and the result."""
        for records in self._committed.values():
            for _, value in records:
                source = value.split(b"|")[2]
                if source:
                    yield source, value

    def check_groups(
        self, groups: dict[str, tuple[list[TopicPartition], bool]], awaited: Audit, *, strict: bool
    ) -> None:
        """Each group has read, or made something of, every record that was `awaited`; each session is as the log is.

        What a producer had given up, a late packet may still have added afterwards.
        """
        read: dict[tuple[str, TopicPartition], set[int]] = defaultdict(set)
        for source, _ in self._results():
            group, topic, index, of_offset = source.decode().split("/")
            read[group, TopicPartition(topic, int(index))].add(int(of_offset))
        for session in self._ledger.sessions:
            read[session.group, session.partition].update(offset for offset, _ in session.records)
            if strict:
                self._check_session(session, groups[session.group][1])
        if not strict:
            return
        for group, (partitions, is_committed) in groups.items():
            for partition in partitions:
                for offset, value in awaited.content(is_committed)[partition]:
                    if offset not in read[group, partition]:
                        self._violate(f"group {group} has not read {value[:60]!r} at {offset} of {partition}")

    def content(self, is_committed: bool) -> Content:
        """Return what readers see, of committed records or of all."""
        return self._committed if is_committed else self._everything

    def _check_session(self, session: Session, is_committed: bool) -> None:
        """Check that a session is a part of the log without gaps."""
        if not session.records:
            return
        first, last = session.records[0][0], session.records[-1][0]
        expected = [entry for entry in self.content(is_committed)[session.partition] if first <= entry[0] <= last]
        if expected != session.records:
            wrong = next(
                (pair for pair in zip(expected, session.records, strict=False) if pair[0] != pair[1]),
                (expected[-1:], session.records[-1:]),
            )
            self._violate(
                f"{session.member} (generation {session.generation}) read {session.partition} from {first} to {last} "
                f"differently from what it holds: expected {wrong[0]!r:.90}, read {wrong[1]!r:.90}"
            )

    def last_offsets(self, partitions: list[TopicPartition], is_committed: bool) -> dict[TopicPartition, int]:
        """Return the offset of the last record of each partition that has any."""
        content = self.content(is_committed)
        return {partition: content[partition][-1][0] for partition in partitions if content[partition]}
