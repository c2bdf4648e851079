"""What the application was given by the last `poll`, and what it has said of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client.consumer.share.acknowledgements import (
    ACCEPT,
    GAP,
    IDS,
    RENEW,
    Acknowledgements,
    AcknowledgeType,
    Range,
    Run,
    offsets_of,
    ranges_of,
    without,
)
from barnabas.errors import IllegalStateError
from barnabas.protocol.topic_partition import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.records.decoder import EncodedRecords

#: The records of one partition that wait in a loop over the consumer, as ranges of offsets.
Undelivered = Mapping[TopicPartition, list[Range]]
#: What is to be said of a partition's records, and to which node.
NodeAcknowledgements = dict[TopicIdPartition, tuple[int, Acknowledgements]]


class ShareInFlightBatch:
    """The records of one partition that the application has, and what has been said of them.

    Offsets are kept as ranges, so that nothing here costs more for more records until something is said of one alone.
    """

    __slots__ = (
        "_explicit", "_gaps", "_ranges", "_renewed", "_renewing", "_unreadable", "name", "node_id", "partition", "runs",
    )  # fmt: skip

    def __init__(self, node_id: int, partition: TopicIdPartition) -> None:
        self.node_id = node_id
        self.partition = partition
        self.name = partition.topic_partition
        #: Lists or `EncodedRecords`, in the order of their offsets.
        self.runs: list[Any] = []
        self._ranges: list[Range] = []
        self._gaps: list[Range] = []
        self._explicit: dict[int, int] = {}
        # Offsets of records that could not be read, and what is said of them unless the application says otherwise.
        self._unreadable: dict[int, int] = {}
        # Records whose renewal is not answered, and those that are to be handed out again.
        self._renewing: dict[int, ConsumerRecord] = {}
        self._renewed: dict[int, ConsumerRecord] = {}

    def add(
        self, records: Sequence[ConsumerRecord] | EncodedRecords, ranges: Iterable[Range], gaps: Iterable[Range]
    ) -> None:
        """Add records, whose offsets are `ranges`; the `gaps` were acquired and have none."""
        if len(records):
            self.runs.append(records)
        self._ranges = sorted([*self._ranges, *ranges])
        self._gaps += gaps

    def add_unreadable(self, offsets: Iterable[int], type_id: int) -> None:
        """Note records that cannot be handed out."""
        self._unreadable.update(dict.fromkeys(offsets, type_id))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._ranges)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to hand out, to say or to wait for."""
        return not (self._ranges or self._gaps or self._unreadable or self._renewing or self._renewed)

    @property
    def has_renewals(self) -> bool:
        """Whether some record is to be handed out again, or will be if the broker agrees."""
        return bool(self._renewing or self._renewed)

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> None:
        """Say something of a record; what was said before is replaced until it is sent.

        Raises `IllegalStateError` where the application does not have the record (any more).
        """
        if self._has(offset):
            self._explicit[offset] = IDS[kind]
        elif offset in self._unreadable and kind is not AcknowledgeType.RENEW:
            self._unreadable[offset] = IDS[kind]
        else:
            raise IllegalStateError(
                f"The record at offset {offset} of {self.partition} cannot be acknowledged as {kind}: it is not among "
                "those of the last poll(), or was acknowledged and committed"
            )

    def _has(self, offset: int) -> bool:
        at = bisect_right(self._ranges, (offset, 1 << 63)) - 1
        return at >= 0 and self._ranges[at][0] <= offset <= self._ranges[at][1]

    def unacknowledged(self, undelivered: Undelivered) -> int:
        """How many of the records that were handed out nothing was said of."""
        handed_out = without(self._ranges, undelivered.get(self.name, ()))
        return sum(last - first + 1 for first, last in handed_out) - len(self._explicit)

    def take_acknowledged(self, undelivered: Undelivered, *, is_implicit: bool) -> Acknowledgements:
        """Take what is to be sent; with `is_implicit` everything that was handed out is accepted."""
        if is_implicit:
            waiting = undelivered.get(self.name, [])
            said = [Run(first, last, ACCEPT) for first, last in without(self._ranges, waiting)]
        else:
            said = [Run(offset, offset, type_id) for offset, type_id in sorted(self._explicit.items())]
        renewals = {run.first for run in said if run.type_id == RENEW}
        if renewals:
            self._renewing.update((r.offset, r) for r in self.records() if r.offset in renewals)
        self._ranges = without(self._ranges, [(run.first, run.last) for run in said])
        if not self._ranges:
            self.runs = []
        said += [Run(first, last, GAP) for first, last in self._gaps]
        said += [Run(offset, offset, type_id) for offset, type_id in self._unreadable.items()]
        self._explicit, self._gaps, self._unreadable = {}, [], {}
        return Acknowledgements(said)

    def on_answered(self, acknowledgements: Acknowledgements) -> None:
        """Take the answer to renewals: the records are handed out again, or are lost."""
        for run in acknowledgements.runs:
            if run.type_id == RENEW:
                for offset in offsets_of(run):
                    record = self._renewing.pop(offset, None)
                    if record is not None and acknowledgements.error is None:
                        self._renewed[offset] = record

    def take_renewed(self) -> bool:
        """Make the records that were renewed those that the application has; tells whether there are any."""
        if not self._renewed:
            return False
        renewed = sorted(self._renewed)
        left = [record for record in self.records() if self._has(record.offset)] + [self._renewed[n] for n in renewed]
        self.runs = [sorted(left, key=lambda record: record.offset)]
        self._ranges = ranges_of(record.offset for record in self.runs[0])
        self._renewed = {}
        return True

    def records(self) -> Iterator[ConsumerRecord]:
        """Return all records of the last hand-out, also those that something was said of since."""
        for run in self.runs:
            yield from run


class ShareFetch:
    """The batches that the application has now. Belongs to the application's thread."""

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, ShareInFlightBatch] = {}
        #: Milliseconds that the broker keeps records for this consumer; None before it has told.
        self.acquisition_lock_timeout_ms: int | None = None

    def clear(self) -> None:
        """Forget all records."""
        self.batches.clear()

    def batch(self, node_id: int, partition: TopicIdPartition) -> ShareInFlightBatch:
        """Return a partition's batch, made if need be; one of another leader is replaced, for its locks are gone."""
        found = self.batches.get(partition.topic_partition)
        if found is None or found.node_id != node_id or found.partition != partition:
            found = self.batches[partition.topic_partition] = ShareInFlightBatch(node_id, partition)
        return found

    def __len__(self) -> int:
        return sum(map(len, self.batches.values()))

    @property
    def has_renewals(self) -> bool:
        """Whether records are to be handed out again, or will be."""
        return any(batch.has_renewals for batch in self.batches.values())

    def acknowledge(self, partition: tuple[str, int], offset: int, kind: AcknowledgeType) -> None:
        """Say something of a record. Raises `IllegalStateError` where the application does not have it."""
        batch = self.batches.get(partition)  # type: ignore[call-overload]  # a TopicPartition is such a pair
        if batch is None:
            topic, number = partition
            raise IllegalStateError(
                f"The record at offset {offset} of {topic}-{number} cannot be acknowledged as {kind}: the last poll() "
                "brought nothing of that partition, or all of it was acknowledged and committed"
            )
        batch.acknowledge(offset, kind)

    def unacknowledged(self, undelivered: Undelivered) -> int:
        """How many records were handed out that nothing was said of."""
        return sum(batch.unacknowledged(undelivered) for batch in self.batches.values())

    def take_acknowledged(self, undelivered: Undelivered, *, is_implicit: bool) -> NodeAcknowledgements:
        """Take what is to be sent, with the node of each."""
        taken: NodeAcknowledgements = {}
        for name, batch in list(self.batches.items()):
            said = batch.take_acknowledged(undelivered, is_implicit=is_implicit)
            if said.runs:
                taken[batch.partition] = batch.node_id, said
            if batch.is_done:
                del self.batches[name]
        return taken

    def on_answered(self, partition: TopicIdPartition, acknowledgements: Acknowledgements) -> None:
        """Take the answer of a broker."""
        batch = self.batches.get(partition.topic_partition)
        if batch is not None and batch.partition == partition:
            batch.on_answered(acknowledgements)
            if batch.is_done:
                del self.batches[batch.name]

    def take_renewed(self) -> bool:
        """Make the records that were renewed those that the application has; tells whether there are any."""
        taken = [batch.take_renewed() for batch in self.batches.values()]
        return any(taken)
