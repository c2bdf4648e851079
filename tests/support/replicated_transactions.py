"""A transactional producer and readers of committed records, on the partitions of a `ReplicatedCluster`.

The coordinator is scripted: markers are sent to the leaders until they are written. So what is tried is what brokers do
with transactions in their logs: sequences, the last stable offset, aborted ones, over truncations and elections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas import errors
from barnabas.protocol.message import Message
from barnabas.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.core_broker import START_MS, fetch, produce
from tests.support.histories import Outcome, Send

if TYPE_CHECKING:
    from tests.support.replicated_cluster import ReplicatedCluster

PRODUCE_VERSION, MARKERS_VERSION, FETCH_VERSION = 11, 1, 12
READ_COMMITTED = 1
#: That a sequence is missing must never be told: the producer sends the next one after it was told of the one before.
#: But a leader that has read its log anew, and found a marker only, as the records before it were deleted, wants the
#: first one, as Apache Kafka's (ProducerAppendInfo.checkSequence): the producer begins another epoch then (KIP-360).
_LOST = (errors.OutOfOrderSequenceError.code, errors.UnknownProducerIdError.code)


class TransactionalProducer:
    """Transactions one after the other, each of a few records; what is not answered is sent again as it was."""

    def __init__(self, cluster: ReplicatedCluster, producer_id: int) -> None:
        self._cluster = cluster
        self._id = producer_id
        self._epoch = self._number = 0
        self._sequences: dict[TopicPartition, int] = {}
        self._last_offsets: dict[TopicPartition, int] = {}
        #: The records of the transaction, and the offset of each that was acknowledged.
        self._values: list[tuple[TopicPartition, bytes]] = []
        self._offsets: dict[bytes, int] = {}
        #: Whether no transaction is open, and none follows.
        self.is_idle = False
        #: Values by what became of their transactions; where the commit was sent they may be read.
        self.committing: set[bytes] = set()
        self.committed: dict[bytes, tuple[TopicPartition, int]] = {}
        self.aborted: set[bytes] = set()

    def begin(self) -> None:
        """Begin a transaction, as long as there is load; none is left open."""
        cluster = self._cluster
        self.is_idle = not cluster.loads
        if cluster.loads:
            self._offsets, self._began_at = {}, cluster.world.now
            count = cluster.world.random.randint(1, 3)
            values = [b"x%d-%d-%d" % (self._id, self._number, index) for index in range(count)]
            self._values = [(cluster.any_name(), value) for value in values]
            self._number += 1
            self._send(0)

    def _send(self, index: int) -> None:
        if index == len(self._values):
            self._end(commits=self._cluster.world.random.random() < 0.6)
            return
        name, value = self._values[index]
        sequence = self._sequences.get(name, 0)
        builder = RecordBatchBuilder(1 << 16)
        builder.try_append(START_MS, b"key", value, [])
        builder.set_producer_state(self._id, self._epoch, sequence, True)

        def then(response: Any) -> None:
            code = None if response is None else response.responses[0].partition_responses[0].error_code
            if code == errors.OutOfOrderSequenceError.code and self._is_deleted(name):
                self._epoch, self._sequences = self._epoch + 1, {}
                self._end(commits=False)
                return
            if code == errors.OutOfOrderSequenceError.code and self._was_replaced(name):
                self._again(lambda: self._send(index))
                return
            assert code not in _LOST, f"the producer's sequence {sequence} does not fit {name}: error {code}"
            if code == 0:
                offset = response.responses[0].partition_responses[0].base_offset
                self._last_offsets[name] = self._offsets[value] = offset
                self._sequences[name] = sequence + 1
                self._again(lambda: self._send(index + 1))
            else:
                self._again(lambda: self._send(index))

        request = produce(name.topic, bytes(builder.close()), name.partition)
        request.transactional_id = f"x{self._id}"
        self._ask(name, request, PRODUCE_VERSION, then)

    def _was_replaced(self, name: TopicPartition) -> bool:
        """Whether the broker that was asked leads in an earlier epoch; a client goes to none that it knows for one."""
        partition = self._asked.partition(name) if self._asked.alive else None
        return partition is None or partition.leader_epoch < self._cluster.registration(name).leader_epoch

    def _is_deleted(self, name: TopicPartition) -> bool:
        """Whether all of its records may be deleted."""
        partitions = [node.partition(name) for node in self._cluster.nodes.values() if node.alive]
        last = self._last_offsets.get(name, -1)
        return any(found is not None and found.log.log_start_offset > last for found in partitions)

    def _end(self, *, commits: bool) -> None:
        values = [value for _, value in self._values]
        (self.committing if commits else self.aborted).update(values)
        names = list(dict.fromkeys(name for name, _ in self._values))
        self._mark(names, commits, self._cluster.world.now)

    def _mark(self, names: list[TopicPartition], commits: bool, asked_at: float) -> None:
        """Have markers written to one partition after the other; then the next transaction begins."""
        if not names:
            self._ended(commits, asked_at)
            self._again(self.begin)
            return
        name = names[0]
        topics = [WritableTxnMarkerTopic(name=name.topic, partition_indexes=[name.partition])]
        marker = WritableTxnMarker(self._id, self._epoch, transaction_result=commits, topics=topics)

        def then(response: Any) -> None:
            is_written = response is not None and not response.markers[0].topics[0].partitions[0].error_code
            self._again(lambda: self._mark(names[1:] if is_written else names, commits, asked_at))

        self._ask(name, WriteTxnMarkersRequest(markers=[marker]), MARKERS_VERSION, then)

    def _ended(self, commits: bool, asked_at: float) -> None:
        if commits:
            self.committed.update({value: (name, self._offsets[value]) for name, value in self._values})
        sends = [Send(name, value, self._offsets.get(value)) for name, value in self._values]
        outcome = Outcome.OK if commits else Outcome.FAILED
        self._cluster.history.ended(f"x{self._id}", sends, outcome, self._began_at, asked_at)

    def _ask(self, name: TopicPartition, request: Message, version: int, then: Any) -> None:
        self._asked = self._cluster._leader(name)
        self._cluster._ask(self._asked, request, version, then)

    def _again(self, work: Any) -> None:
        world = self._cluster.world
        world.after(0.02 + world.random.random() * 0.1, work)


class CommittedReader:
    """Reads the committed records of a partition, and holds them against what became of their transactions."""

    def __init__(
        self, cluster: ReplicatedCluster, name: TopicPartition, producers: list[TransactionalProducer]
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._producers = producers

    def read(self, offset: int = 0, moved: bool = True) -> None:
        """Read on. `moved`: it did not get there by reading."""
        name, cluster = self._name, self._cluster
        node = cluster._leader(name)

        def then(response: Any) -> None:
            following, is_moved = offset, moved
            if response is not None:
                data = response.responses[0].partitions[0]
                if data.error_code == 0 and data.records:
                    records = bytes(data.records)
                    following, is_moved = self.take(offset, records, data.aborted_transactions or (), moved) + 1, False
                elif data.error_code == errors.OffsetOutOfRangeError.code and node.partition(name) is not None:
                    following, is_moved = node.partition(name).log.log_start_offset, True
            if cluster.loads:
                cluster.world.after(0.1, lambda: self.read(following, is_moved))

        asked = fetch(name.topic, offset, name.partition, max_wait_ms=100, isolation_level=READ_COMMITTED)
        cluster._ask(node, asked, FETCH_VERSION, then)

    def take(self, asked: int, records: bytes, aborted: Any, moved: bool) -> int:
        """Check the records of a response; returns the last offset."""
        visible, last = committed_values(records, aborted)
        for value in visible.values():
            for producer in self._producers:
                assert value not in producer.aborted, f"{value!r} was read, and its transaction is aborted"
                is_mine = value.startswith(b"x%d-" % producer._id)
                assert not is_mine or value in producer.committing, f"{value!r} was read before its commit"
        new = [(offset, value) for offset, value in visible.items() if offset >= asked]
        self._cluster.history.read_committed("committed", self._name, new, moved)
        return last

    def check_end(self) -> None:
        """All that was committed and not deleted can be read, in the end, and nothing else of transactions."""
        log = self._cluster.replicas(self._name)[0].partition(self._name).log
        visible: dict[int, bytes] = {}
        at = start = log.log_start_offset
        while at < log.log_end_offset:
            read = log.read(at, 1 << 20, isolation=READ_COMMITTED)
            more, last = committed_values(
                read.records, [(one.producer_id, one.first_offset) for one in read.aborted_transactions or ()]
            )
            assert last >= at, f"nothing can be read at {at} of {log}: a transaction hangs"
            visible.update(more)
            at = last + 1
        found = set(visible.values())
        for producer in self._producers:
            lost = [
                value
                for value, (name, offset) in producer.committed.items()
                if name == self._name and offset >= start and value not in found
            ]
            assert not lost, f"committed and lost: {lost}"
            assert not found & producer.aborted, f"aborted and there: {found & producer.aborted}"
        self._cluster.history.audited_committed(self._name, start, visible.items())


def committed_values(records: Any, aborted: Any) -> tuple[dict[int, bytes], int]:
    """Return the values by offset that a reader of committed records hands out, and the last offset."""
    pairs = [one if isinstance(one, tuple) else (one.producer_id, one.first_offset) for one in aborted]
    waiting = sorted(pairs, key=lambda pair: pair[1])
    active: set[int] = set()
    found: dict[int, bytes] = {}
    last = -1
    for batch in read_batches(records):
        while waiting and waiting[0][1] <= batch.last_offset:
            active.add(waiting.pop(0)[0])
        if batch.is_control:
            active.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in active):
            found.update((record.offset, record.value) for record in batch)
        last = batch.last_offset
    return found, last
