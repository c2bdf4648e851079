"""Asks the share coordinators, which may be other brokers, about the states of share-partitions.

In Apache Kafka this is PersisterStateManager; `share/default_state_persister.py` says what is asked when, and again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from barnabas import errors
from barnabas.broker.membership.broker_queue import BrokerQueue
from barnabas.broker.metadata.cluster_metadata import SHARE_GROUP_STATE_TOPIC
from barnabas.broker.share.persister import (
    ANY_EPOCH,
    SharePartitionKey,
    SharePartitionState,
    StateBatch,
    StateSummary,
    StateUpdate,
)
from barnabas.broker.share.state_operation import (
    Answer,
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    StateOperation,
)
from barnabas.protocol.coordinator_partition import partition_for
from barnabas.protocol.messages import (
    delete_share_group_state_request as deletion,
)
from barnabas.protocol.messages import (
    initialize_share_group_state_request as initialization,
)
from barnabas.protocol.messages import (
    read_share_group_state_request as reading,
)
from barnabas.protocol.messages import (
    read_share_group_state_summary_request as summary,
)
from barnabas.protocol.messages import (
    write_share_group_state_request as writing,
)

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message

#: A write is answered when the replicas have it, so groups share so many ways to a broker.
_LANES = 4

Told = Callable[[Answer], None]


def _initialized(index: int, asked: InitializeState) -> initialization.PartitionData:
    return initialization.PartitionData(index, asked.state_epoch, asked.start_offset)


def _read(index: int, asked: ReadState) -> reading.PartitionData:
    return reading.PartitionData(index, asked.leader_epoch)


def _written(index: int, asked: StateUpdate) -> writing.PartitionData:
    return writing.PartitionData(
        partition=index,
        state_epoch=asked.state_epoch,
        leader_epoch=asked.leader_epoch,
        start_offset=asked.start_offset,
        delivery_complete_count=asked.delivery_complete_count,
        state_batches=[writing.StateBatch(*batch) for batch in asked.state_batches],
    )


def _deleted(index: int, asked: DeleteState) -> deletion.PartitionData:
    return deletion.PartitionData(index)


def _summarized(index: int, asked: ReadSummary) -> summary.PartitionData:
    return summary.PartitionData(index, ANY_EPOCH)


def _done(result: Any) -> None:
    return None


def _state(result: Any) -> SharePartitionState:
    batches = [
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in result.state_batches
    ]
    return SharePartitionState(result.state_epoch, result.start_offset, batches)


def _summary(result: Any) -> StateSummary:
    return StateSummary(result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count)


class _Form(NamedTuple):
    """How one kind of question is written, and its answer read; all five requests have the same shape."""

    request: type[Any]
    topic: type[Any]
    partition: Callable[[int, Any], Any]
    answer: Callable[[Any], Answer]


_FORMS: dict[type, _Form] = {
    InitializeState: _Form(
        initialization.InitializeShareGroupStateRequest, initialization.InitializeStateData, _initialized, _done
    ),
    ReadState: _Form(reading.ReadShareGroupStateRequest, reading.ReadStateData, _read, _state),
    StateUpdate: _Form(writing.WriteShareGroupStateRequest, writing.WriteStateData, _written, _done),
    DeleteState: _Form(deletion.DeleteShareGroupStateRequest, deletion.DeleteStateData, _deleted, _done),
    ReadSummary: _Form(summary.ReadShareGroupStateSummaryRequest, summary.ReadStateSummaryData, _summarized, _summary),
}


class BrokerStates(BrokerQueue[StateOperation, Told]):
    """The questions for one broker: a `Requester`. Those of one kind and group go together with the next request."""

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        node = self.target
        if node is None:
            return None
        first = self.unsent[0][0]
        kind, group_id = type(first.asked), first.key.group_id

        def fits(operation: StateOperation) -> bool:
            return type(operation.asked) is kind and operation.key.group_id == group_id

        self.in_flight = [one for one in self.unsent if fits(one[0])]
        self.unsent = [one for one in self.unsent if not fits(one[0])]
        form = _FORMS[kind]
        by_topic: dict[bytes, list[StateOperation]] = {}
        for operation, _ in self.in_flight:
            by_topic.setdefault(operation.key.topic_id, []).append(operation)
        topics = [
            form.topic(topic_id=topic_id, partitions=[form.partition(one.key.partition, one.asked) for one in asked])
            for topic_id, asked in by_topic.items()
        ]
        return node, form.request(group_id=group_id, topics=topics)

    def not_answered(self, asked: StateOperation, answer: Told) -> None:
        """See `BrokerQueue`."""
        answer(errors.DisconnectError("The share coordinator did not answer."))

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        results: Any = response
        found = {
            (topic.topic_id, partition.partition): partition
            for topic in results.results
            for partition in topic.partitions
        }
        self.answer([partial(tell, _answer(operation, found)) for operation, tell in self.in_flight])


def _answer(operation: StateOperation, found: dict[tuple[bytes, int], Any]) -> Answer:
    result = found.get((operation.key.topic_id, operation.key.partition))
    if result is None:
        return errors.CoordinatorNotAvailableError("The share coordinator did not answer for this share-partition.")
    if result.error_code:
        return errors.for_code(result.error_code, result.error_message or None)
    return _FORMS[type(operation.asked)].answer(result)


class ShareStates:
    """Which broker coordinates a share-partition: the leader of the partition of `__share_group_state` for its key."""

    def __init__(
        self, me: int, image: Callable[[], MetadataImage], of_broker: Callable[[int, int], BrokerStates]
    ) -> None:
        self._me = me
        self._image = image
        self._of_broker = of_broker

    def ask(self, operation: StateOperation, tell: Told) -> bool:
        """Ask the broker that coordinates; False: that is this one. Raises CoordinatorNotAvailableError."""
        leader = self._coordinator_of(operation.key)
        if leader == self._me:
            return False
        self._of_broker(leader, crc32(operation.key.group_id.encode()) % _LANES).add(operation, tell)
        return True

    def _coordinator_of(self, key: SharePartitionKey) -> int:
        topic = self._image().topic(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            raise errors.CoordinatorNotAvailableError("There is no topic __share_group_state yet.")
        index = partition_for(key.coordinator_key, len(topic.partitions))
        leader = topic.partitions[index].leader
        if leader < 0:
            raise errors.CoordinatorNotAvailableError(f"__share_group_state-{index} has no leader at the moment.")
        return leader
