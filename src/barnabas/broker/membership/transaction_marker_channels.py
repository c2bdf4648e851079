"""Transaction markers for partitions that other brokers lead (TransactionMarkerChannelManager)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.membership.broker_queue import BrokerQueue
from barnabas.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.transactions.marker import Marker, MarkerAnswer, MarkerWriter
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message


class BrokerMarkers(BrokerQueue["Marker", "MarkerAnswer"]):
    """The markers for one broker: a `Requester`. All that are there go with the next request.

    A marker that was not answered fails, and its transaction tries again, wherever its partition is led then.
    """

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        node = self.target
        if node is None:
            return None
        self.in_flight, self.unsent = self.unsent, []
        return node, WriteTxnMarkersRequest(markers=_grouped([marker for marker, _ in self.in_flight]))

    def not_answered(self, asked: Marker, answer: MarkerAnswer) -> None:
        """See `BrokerQueue`."""
        answer(_outcome(None))

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        assert isinstance(response, WriteTxnMarkersResponse)
        codes = {
            (result.producer_id, topic.name, partition.partition_index): partition.error_code
            for result in response.markers
            for topic in result.topics
            for partition in topic.partitions
        }
        self.answer(
            [
                partial(answer, _outcome(codes.get((marker.producer_id, *marker.partition))))
                for marker, answer in self.in_flight
            ]
        )


def _outcome(code: int | None) -> errors.KafkaError | None:
    if code is None:
        return errors.DisconnectError("the broker that leads the partition did not answer")
    return errors.for_code(code) if code else None


def _grouped(markers: list[Marker]) -> list[WritableTxnMarker]:
    """Return the markers as a request has them: those that end the same transaction together."""
    found: dict[tuple[object, ...], WritableTxnMarker] = {}
    for marker in markers:
        topic, index = marker.partition
        key = marker[1:]
        entry = found.get(key)
        if entry is None:
            entry = found[key] = WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
        topics = {known.name: known for known in entry.topics}
        if topic not in topics:
            topics[topic] = WritableTxnMarkerTopic(name=topic)
            entry.topics.append(topics[topic])
        topics[topic].partition_indexes.append(index)
    return list(found.values())


class ClusterMarkers:
    """MarkerWriter of a cluster: to this broker's own partitions at once, to others by their leaders.

    That a partition is deleted is said by this broker's metadata only, which had it when it came into the transaction.
    A leader that does not know it has not heard of it yet: Apache Kafka's answers UNKNOWN_TOPIC_OR_PARTITION then.
    """

    def __init__(
        self,
        me: int,
        local: MarkerWriter,
        image: Callable[[], MetadataImage],
        of_broker: Callable[[int], BrokerMarkers],
    ) -> None:
        self._me = me
        self._local = local
        self._image = image
        self._of_broker = of_broker

    def write(self, marker: Marker, at: Instant, answer: MarkerAnswer) -> None:
        """See `MarkerWriter`."""
        registration = self._image().partition(*marker.partition)
        if registration is None:
            answer(errors.UnknownTopicOrPartitionError("The partition is deleted."))
            return

        def of_leader(error: errors.KafkaError | None) -> None:
            is_late = isinstance(error, errors.UnknownTopicOrPartitionError)
            answer(errors.NotLeaderOrFollowerError(str(error)) if is_late else error)

        if registration.leader == self._me:
            self._local.write(marker, at, of_leader)
        elif registration.leader < 0:
            answer(errors.LeaderNotAvailableError("The partition has no leader at the moment."))
        else:
            self._of_broker(registration.leader).add(marker, of_leader)
