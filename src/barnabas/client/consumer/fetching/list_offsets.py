"""Asks the leaders for offsets: by time, first, last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.consumer.offsets import OffsetAndTimestamp
from barnabas.client.consumer.request_future import RequestFuture
from barnabas.errors import NONE, KafkaError, KafkaTimeoutError, TopicAuthorizationError, for_code
from barnabas.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.network.client_request import ClientResponse
    from barnabas.network.node import Node
    from barnabas.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse

CONSUMER_REPLICA_ID = -1
_UNKNOWN_OFFSET = -1


class ListOffsetsResult(NamedTuple):
    """What one leader answered: None for a partition without such an offset; in `to_retry` why to ask again."""

    found: dict[TopicPartition, OffsetAndTimestamp | None]
    to_retry: dict[TopicPartition, KafkaError]


def send_list_offsets(
    client: ConsumerNetworkClient,
    node: Node,
    timestamps: Mapping[TopicPartition, tuple[int, int]],
    isolation_level: int,
    now: float,
) -> RequestFuture[ListOffsetsResult]:
    """Ask one leader; `timestamps` has, for each partition, the time in epoch milliseconds and the leader epoch."""
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), (timestamp, epoch) in timestamps.items():
        if topic not in topics:
            topics[topic] = ListOffsetsTopic(name=topic)
        topics[topic].partitions.append(
            ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
        )
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=list(topics.values()),
        timeout_ms=int(client.request_timeout * 1000),
    )
    return client.send(node, request, now).compose(_handle)


def _handle(response: ClientResponse, future: RequestFuture[ListOffsetsResult]) -> None:
    result = ListOffsetsResult({}, {})
    for topic in response.message.topics:
        for partition in topic.partitions:
            _handle_partition(TopicPartition(topic.name, partition.partition_index), partition, result)
    future.complete(result)


def _handle_partition(name: TopicPartition, partition: ListOffsetsPartitionResponse, result: ListOffsetsResult) -> None:
    code = partition.error_code
    if code == TopicAuthorizationError.code:
        error = TopicAuthorizationError(f"Not authorized to read topic {name.topic!r}")
        error.resources = (name.topic,)
        raise error
    if code == NONE:
        is_known = partition.offset != _UNKNOWN_OFFSET
        found = OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)
        result.found[name] = found if is_known else None
    elif for_code(code).retriable:
        result.to_retry[name] = for_code(code)
    else:
        raise for_code(code, f"The offset of {name} could not be looked up: {for_code(code)}")


class OffsetsLookup:
    """Looks offsets up for the application, asking again what fails for a passing reason, until all are there.

    Belongs to the application's thread, which calls `tick` and polls the network until `is_done`.
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        metadata: ConsumerMetadata,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: int,
        retry_backoff: float,
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._remaining = dict(timestamps)
        self._isolation_level = isolation_level
        self._retry_backoff = retry_backoff
        self._in_flight = 0
        self._retry_at = 0.0
        self._error: KafkaError | None = None
        # The last answer that allows another try.
        self._refusal: str | None = None
        self.found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        metadata.add_transient_topics({partition.topic for partition in timestamps})

    @property
    def is_done(self) -> bool:
        """Whether every offset is found; raises the error that prevents it."""
        if self._error is not None:
            raise self._error
        return not self._remaining

    def tick(self, now: float) -> None:
        """Ask the leaders that are known."""
        if self._in_flight or now < self._retry_at:
            return
        self._retry_at = now + self._retry_backoff
        by_leader: dict[Node, dict[TopicPartition, tuple[int, int]]] = {}
        for partition, timestamp in self._remaining.items():
            leader, epoch = self._metadata.current_leader(partition)
            self._metadata.raise_error_of_topic(partition.topic)
            if leader is not None:
                by_leader.setdefault(leader, {})[partition] = (timestamp, epoch)
            else:
                self._metadata.request_update(reset_equivalent_backoff=False)
        for node, timestamps in by_leader.items():
            self._in_flight += 1
            future = send_list_offsets(self._client, node, timestamps, self._isolation_level, now)
            future.add_listener(self._on_answered, self._on_failed)

    def timed_out(self, timeout: float) -> KafkaTimeoutError:
        """Return the error for the application when time has run out."""
        names = ", ".join(str(partition) for partition in list(self._remaining)[:10])
        if self._refusal is not None:
            why = f"; {self._refusal}"
        else:
            why = self._client.client.failure_to_connect or "; is there such a topic, and a leader?"
        return KafkaTimeoutError(f"The offsets of {names} were not found within {timeout:g} s{why}")

    def _on_answered(self, result: ListOffsetsResult) -> None:
        self._in_flight -= 1
        for partition, found in result.found.items():
            self._remaining.pop(partition, None)
            self.found[partition] = found
        for partition, error in result.to_retry.items():
            self._refusal = f"the broker answered for {partition}: {error.name}, {error}"
        if result.to_retry:
            self._metadata.request_update(reset_equivalent_backoff=False)

    def _on_failed(self, error: KafkaError) -> None:
        self._in_flight -= 1
        self._metadata.request_update(reset_equivalent_backoff=False)
        if not error.retriable:
            self._error = error
