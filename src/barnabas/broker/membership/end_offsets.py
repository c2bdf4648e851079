"""Asks who leads partitions where they end for readers (NetworkPartitionMetadataClient)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.membership.broker_queue import BrokerQueue
from barnabas.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.list_offsets_response import ListOffsetsResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.groups.share.offsets import EndOffset
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message

_LATEST = -1
_CONSUMER = -1

Told = Callable[["int | errors.KafkaError"], None]


class BrokerEndOffsets(BrokerQueue[TopicPartition, Told]):
    """The partitions of one broker whose end is asked for: a `Requester`. All that are there go with one request."""

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        node = self.target
        if node is None:
            return None
        self.in_flight, self.unsent = self.unsent, []
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in dict.fromkeys(name for name, _ in self.in_flight):
            asked = ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
            topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(asked)
        return node, ListOffsetsRequest(replica_id=_CONSUMER, topics=list(topics.values()))

    def not_answered(self, asked: TopicPartition, answer: Told) -> None:
        """See `BrokerQueue`."""
        answer(errors.LeaderNotAvailableError("The broker that leads the partition did not answer."))

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        assert isinstance(response, ListOffsetsResponse)
        found: dict[TopicPartition, int | errors.KafkaError] = {
            TopicPartition(topic.name, one.partition_index): (
                errors.for_code(one.error_code) if one.error_code else one.offset
            )
            for topic in response.topics
            for one in topic.partitions
        }
        missing = errors.LeaderNotAvailableError("The broker that leads the partition did not say where it ends.")
        self.answer([partial(tell, found.get(name, missing)) for name, tell in self.in_flight])


class EndOffsets:
    """Where partitions end, wherever they are led; `local` tells of this broker's."""

    def __init__(
        self,
        me: int,
        local: EndOffset,
        image: Callable[[], MetadataImage],
        of_broker: Callable[[int], BrokerEndOffsets],
    ) -> None:
        self._me = me
        self._local = local
        self._image = image
        self._of_broker = of_broker

    def __call__(self, topic: str, index: int, tell: Told) -> None:
        """Have `tell` called with the offset, or why it is not known."""
        registration = self._image().partition(topic, index)
        if registration is None:
            tell(errors.UnknownTopicOrPartitionError("There is no such topic, or it has no such partition."))
        elif registration.leader == self._me:
            self._local(topic, index, tell)
        elif registration.leader < 0:
            tell(errors.LeaderNotAvailableError("The partition has no leader at the moment."))
        else:
            self._of_broker(registration.leader).add(TopicPartition(topic, index), tell)
