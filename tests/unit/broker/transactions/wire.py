"""A transactional producer in raw protocol, against a broker on virtual time, and a reader of committed records."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.kinds import IsolationLevel
from barnabas.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.core_broker import START_MS, CoreClient, fetch, produce

READ_UNCOMMITTED, READ_COMMITTED = IsolationLevel


def transactional_batch(values: list[bytes], producer_id: int, epoch: int, sequence: int) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    for value in values:
        builder.try_append(START_MS, b"key", value, [])
    builder.set_producer_state(producer_id, epoch, sequence, transactional=True)
    return bytes(builder.close())


class WireProducer:
    """One transactional id. `second` speaks the second protocol (KIP-890), as clients since Kafka 4.0 do."""

    def __init__(self, client: CoreClient, transactional_id: str = "tx", *, second: bool = True):
        self.client = client
        self.transactional_id = transactional_id
        self.second = second
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, timeout_ms: int = 60_000) -> int:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
        response = self.client.request(request, 5)
        if not response.error_code:
            self._became(response)
        return int(response.error_code)

    def add(self, *partitions: tuple[str, int]) -> int:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        response = self.client.request(request, 3)
        results = response.results_by_topic_v3_and_below
        return int(max(part.partition_error_code for topic in results for part in topic.results_by_partition))

    def send(self, topic: str, *values: bytes, partition: int = 0, version: int = 0, sequence: int = -1) -> Any:
        """Produce, with the next sequence number unless one is given."""
        at = (topic, partition)
        base = sequence if sequence >= 0 else self.sequences.get(at, 0)
        request = produce(topic, transactional_batch(list(values), self.producer_id, self.epoch, base), partition)
        request.transactional_id = self.transactional_id
        response = self.client.request(request, version or (12 if self.second else 11))
        answer = response.responses[0].partition_responses[0]
        if not answer.error_code:
            self.sequences[at] = base + len(values)
        return answer

    def commit_offset(self, group: str, topic: str, offset: int, partition: int = 0, **member: Any) -> int:
        if not self.second:
            error = self.client.request(
                AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group), 3
            ).error_code
            if error:
                return int(error)
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
            **member,
        )
        response = self.client.request(request, 5 if self.second else 3)
        return int(response.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = self.client.request(request, 5 if self.second else 4)
        if not response.error_code and self.second:
            self._became(response)
        return int(response.error_code)

    def _became(self, response: Any) -> None:
        if (response.producer_id, response.producer_epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()


def read(client: CoreClient, topic: str, partition: int = 0, *, isolation: int = READ_COMMITTED) -> list[bytes]:
    """The values that a consumer sees, as clients filter them: by the aborted transactions in the response."""
    found = []
    offset = 0
    while True:
        response = client.request(fetch(topic, offset, partition, isolation_level=isolation), 12)
        [answer] = response.responses[0].partitions
        assert answer.error_code == 0
        aborted = sorted((txn.first_offset, txn.producer_id) for txn in answer.aborted_transactions or ())
        in_abort: set[int] = set()
        before = offset
        for batch in read_batches(answer.records):
            while aborted and aborted[0][0] <= batch.last_offset:
                in_abort.add(aborted.pop(0)[1])
            if batch.is_control:
                if next(iter(batch)).key == b"\0\0\0\0":
                    in_abort.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in in_abort):
                found += [record.value or b"" for record in batch if record.offset >= offset]
            offset = batch.next_offset
        if offset == before:
            return found


def latest(client: CoreClient, topic: str, partition: int = 0, *, isolation: int = READ_COMMITTED) -> int:
    """The end of what can be read (ListOffsets)."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    return int(client.request(request, 7).topics[0].partitions[0].offset)


def committed(
    client: CoreClient, group: str, topic: str, partition: int = 0, *, stable: bool = True
) -> tuple[int, int]:
    """A group's offset and the error code."""
    topics = [OffsetFetchRequestTopics(topic, partition_indexes=[partition])]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
    response = client.request(OffsetFetchRequest(groups=groups, require_stable=stable), 9)
    found = response.groups[0].topics[0].partitions[0]
    return int(found.committed_offset), int(found.error_code or response.groups[0].error_code)
