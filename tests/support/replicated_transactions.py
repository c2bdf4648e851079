"""A transactional producer and readers of committed records, on the partition of a `ReplicatedCluster`.

The coordinator is scripted: markers are sent to the leader until they are written. So what is tried is what brokers do
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
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.core_broker import START_MS, fetch, produce

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

    def __init__(self, cluster: ReplicatedCluster, topic: str, producer_id: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._id = producer_id
        self._sequence = self._epoch = 0
        self._last_offset = -1
        self._number = 0
        self._values: list[bytes] = []
        #: Whether no transaction is open, and none follows.
        self.is_idle = False
        #: Values by what became of their transactions; where the commit was sent they may be read.
        self.committing: set[bytes] = set()
        self.committed: dict[bytes, int] = {}
        self.aborted: set[bytes] = set()

    def begin(self) -> None:
        """Begin a transaction, as long as there is load; none is left open."""
        self.is_idle = not self._cluster.loads
        if self._cluster.loads:
            self._offsets: dict[bytes, int] = {}
            random = self._cluster.world.random
            self._values = [b"x%d-%d-%d" % (self._id, self._number, index) for index in range(random.randint(1, 3))]
            self._number += 1
            self._send(0)

    def _send(self, index: int) -> None:
        if index == len(self._values):
            self._end(self._cluster.world.random.random() < 0.6)
            return
        value = self._values[index]
        builder = RecordBatchBuilder(1 << 16)
        builder.try_append(START_MS, b"key", value, [])
        builder.set_producer_state(self._id, self._epoch, self._sequence, True)

        def then(response: Any) -> None:
            code = None if response is None else response.responses[0].partition_responses[0].error_code
            if code == errors.OutOfOrderSequenceError.code and self._is_deleted:
                self._epoch, self._sequence = self._epoch + 1, 0
                self._end(False)
                return
            if code == errors.OutOfOrderSequenceError.code and self._was_replaced:
                self._again(lambda: self._send(index))
                return
            assert code not in _LOST, f"the producer's sequence {self._sequence} does not fit: error {code}"
            if code == 0:
                self._last_offset = self._offsets[value] = response.responses[0].partition_responses[0].base_offset
                self._sequence += 1
                self._again(lambda: self._send(index + 1))
            else:
                self._again(lambda: self._send(index))

        request = produce(self._topic, bytes(builder.close()))
        request.transactional_id = f"x{self._id}"
        self._ask(request, PRODUCE_VERSION, then)

    @property
    def _was_replaced(self) -> bool:
        """Whether the broker that was asked leads in an earlier epoch; a client goes to none that it knows for one."""
        partition = self._asked.partition if self._asked.alive else None
        return partition is None or partition.leader_epoch < self._cluster.controller.registration.leader_epoch

    @property
    def _is_deleted(self) -> bool:
        """Whether all of its records may be deleted."""
        partitions = [node.partition for node in self._cluster.nodes.values() if node.alive]
        return any(found is not None and found.log.log_start_offset > self._last_offset for found in partitions)

    def _end(self, commits: bool) -> None:
        if commits:
            self.committing.update(self._values)
        else:
            self.aborted.update(self._values)
        topics = [WritableTxnMarkerTopic(name=self._topic, partition_indexes=[0])]
        marker = WritableTxnMarker(self._id, self._epoch, transaction_result=commits, topics=topics)

        def then(response: Any) -> None:
            if response is None or response.markers[0].topics[0].partitions[0].error_code:
                self._again(lambda: self._end(commits))
                return
            if commits:
                self.committed.update(self._offsets)
            self._again(self.begin)

        self._ask(WriteTxnMarkersRequest(markers=[marker]), MARKERS_VERSION, then)

    def _ask(self, request: Message, version: int, then: Any) -> None:
        self._asked = self._cluster._leader()
        self._cluster._ask(self._asked, request, version, then)

    def _again(self, work: Any) -> None:
        world = self._cluster.world
        world.after(0.02 + world.random.random() * 0.1, work)


class CommittedReader:
    """Reads committed records, and holds what it reads against what became of their transactions."""

    def __init__(self, cluster: ReplicatedCluster, topic: str, producers: list[TransactionalProducer]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._producers = producers

    def read(self, offset: int = 0) -> None:
        """Read on."""
        node = self._cluster._leader()

        def then(response: Any) -> None:
            following = offset
            if response is not None:
                data = response.responses[0].partitions[0]
                if data.error_code == 0 and data.records:
                    following = self.take(bytes(data.records), data.aborted_transactions or ()) + 1
                elif data.error_code == errors.OffsetOutOfRangeError.code and node.partition is not None:
                    following = node.partition.log.log_start_offset
            if self._cluster.loads:
                self._cluster.world.after(0.1, lambda: self.read(following))

        asked = fetch(self._topic, offset, max_wait_ms=100, isolation_level=READ_COMMITTED)
        self._cluster._ask(node, asked, FETCH_VERSION, then)

    def take(self, records: bytes, aborted: Any) -> int:
        """Check the records of a response; returns the last offset."""
        visible, last = committed_values(records, aborted)
        for value in visible:
            for producer in self._producers:
                assert value not in producer.aborted, f"{value!r} was read, and its transaction is aborted"
                is_mine = value.startswith(b"x%d-" % producer._id)
                assert not is_mine or value in producer.committing, f"{value!r} was read before its commit"
        return last

    def check_end(self) -> None:
        """All that was committed and not deleted can be read, in the end, and nothing else of transactions."""
        node = self._cluster.replicas[0]
        log = node.partition.log
        found: set[bytes] = set()
        at = start = log.log_start_offset
        while at < log.log_end_offset:
            read = log.read(at, 1 << 20, isolation=READ_COMMITTED)
            visible, last = committed_values(
                read.records, [(one.producer_id, one.first_offset) for one in read.aborted_transactions or ()]
            )
            assert last >= at, f"nothing can be read at {at} of {log}: a transaction hangs"
            found |= visible
            at = last + 1
        assert any(producer.committed for producer in self._producers), "no transaction was committed"
        for producer in self._producers:
            lost = [value for value, offset in producer.committed.items() if offset >= start and value not in found]
            assert not lost, f"committed and lost: {lost}"
            assert not found & producer.aborted, f"aborted and there: {found & producer.aborted}"


def committed_values(records: Any, aborted: Any) -> tuple[set[bytes], int]:
    """Return the values that a reader of committed records hands out, and the last offset."""
    pairs = [one if isinstance(one, tuple) else (one.producer_id, one.first_offset) for one in aborted]
    waiting = sorted(pairs, key=lambda pair: pair[1])
    active: set[int] = set()
    found: set[bytes] = set()
    last = -1
    for batch in read_batches(records):
        while waiting and waiting[0][1] <= batch.last_offset:
            active.add(waiting.pop(0)[0])
        if batch.is_control:
            active.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in active):
            found.update(record.value for record in batch)
        last = batch.last_offset
    return found, last
