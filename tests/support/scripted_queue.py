"""A cluster of one broker on virtual time that serves share groups, for the tests of a share consumer.

The broker keeps each record's state as KIP-932 has it, so it knows when a record would be in two hands, or be accepted
that was not delivered: both are errors of the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.consumer.share.share_consumer import ShareConsumer
from barnabas.errors import (
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    ShareSessionNotFoundError,
)
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages import share_acknowledge_response as acknowledged
from barnabas.protocol.messages import share_fetch_response as fetched
from barnabas.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.scripted_cluster import NODE, ScriptedCluster, VirtualSelector, topic_id

AVAILABLE, ACQUIRED, ACCEPTED, ARCHIVED = "available", "acquired", "accepted", "archived"
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


@dataclass
class Delivery:
    """Where one record stands."""

    state: str = AVAILABLE
    count: int = 0
    until: float = 0.0


@dataclass
class Session:
    """What the broker knows of the consumer's session."""

    epoch: int = 1
    partitions: set[tuple[bytes, int]] = field(default_factory=set)


class QueueSelector(VirtualSelector):
    """Tells the broker when a connection of the application ends, by which the session ends."""

    def close(self, node_id: int) -> None:
        """See `FakeSelector`."""
        super().close(node_id)
        environment = self._environment
        assert isinstance(environment, ScriptedQueue)
        if not self._is_membership:
            environment.connection_ended()


class ScriptedQueue(ScriptedCluster):
    """One share group with one member; locks last `lock` seconds, and a record is delivered `limit` times."""

    def __init__(self) -> None:
        super().__init__()
        self.lock, self.limit = 30.0, 5
        self.deliveries: dict[tuple[TopicPartition, int], Delivery] = {}
        self.session: Session | None = None
        #: Error codes for acknowledgements of partitions, in the order of the requests.
        self.acknowledge_errors: list[int] = []
        self._parked: tuple[float, Any] | None = None
        self._handlers |= {
            ApiKey.SHARE_GROUP_HEARTBEAT: self._share_group_heartbeat,
            ApiKey.SHARE_FETCH: self._share_fetch,
            ApiKey.SHARE_ACKNOWLEDGE: self._share_acknowledge,
        }

    def share_consumer(self, *topics: str, **settings: Any) -> ShareConsumer:
        """A share consumer of this cluster."""
        return ShareConsumer(*topics, bootstrap_servers="broker:9092", environment=self, **settings)

    def new_selector(self, *, is_membership: bool) -> VirtualSelector:
        """See `ScriptedCluster`."""
        return QueueSelector(self, is_membership=is_membership)

    def state(self, partition: int, offset: int, topic: str = "t") -> str:
        """Where a record stands."""
        return self._delivery(TopicPartition(topic, partition), offset).state

    def states(self) -> dict[str, int]:
        """How many records stand where."""
        found: dict[str, int] = {}
        for name, log in self.logs.items():
            for offset in range(log[0][0], log[-1][1]):
                state = self._delivery(name, offset).state
                found[state] = found.get(state, 0) + 1
        return found

    def connection_ended(self) -> None:
        """The broker releases what the member has."""
        self.session = self._parked = None
        self._release_all()

    # --- the broker

    def _delivery(self, partition: TopicPartition, offset: int) -> Delivery:
        found = self.deliveries.setdefault((partition, offset), Delivery())
        if found.state == ACQUIRED and self.now >= found.until:
            self._end_delivery(found)
        return found

    def _end_delivery(self, delivery: Delivery) -> None:
        delivery.state = ARCHIVED if delivery.count >= self.limit else AVAILABLE

    def _release_all(self) -> None:
        for delivery in self.deliveries.values():
            if delivery.state == ACQUIRED:
                delivery.state = AVAILABLE

    def _share_group_heartbeat(self, request: Any) -> Any:
        error = self._error(ApiKey.SHARE_GROUP_HEARTBEAT)
        if error or request.member_epoch < 0:
            return ShareGroupHeartbeatResponse(error_code=error, member_epoch=request.member_epoch)
        everything = {TopicPartition(name, number) for name, count in self.topics.items() for number in range(count)}
        target = everything if self.wanted is None else self.wanted
        assignment = None
        if target != self._told or request.member_epoch == 0:
            self.member_epoch += 1
            self._told = set(target)
            numbers: dict[str, list[int]] = {}
            for topic, number in sorted(target):
                numbers.setdefault(topic, []).append(number)
            assignment = Assignment([TopicPartitions(topic_id(name), found) for name, found in numbers.items()])
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.member_epoch,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            assignment=assignment,
        )

    def _handler(self, key: int, selector: VirtualSelector) -> Callable[[Any], Any]:
        handle = super()._handler(key, selector)

        def handle_in_order(request: Any) -> Any:
            if selector is self.app_selector:
                self._let_go()
            return handle(request)

        return handle_in_order

    def _share_fetch(self, request: Any) -> Any:
        error = self._check_session(request) or self._error(ApiKey.SHARE_FETCH)
        if error:
            return fetched.ShareFetchResponse(error_code=error)
        assert self.session is not None
        answers: dict[tuple[bytes, int], int] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                key = topic.topic_id, partition.partition_index
                if partition.acknowledgement_batches:
                    answers[key] = self._acknowledge(key, partition.acknowledgement_batches)
                self.session.partitions.add(key)
        for topic in request.forgotten_topics_data:
            self.session.partitions -= {(topic.topic_id, number) for number in topic.partitions}
        response = self._fetched_records(request, answers)
        if response is None and request.max_wait_ms:
            self._parked = self.now + request.max_wait_ms / 1000, request
            return None
        return response or fetched.ShareFetchResponse()

    def _check_session(self, request: Any) -> int:
        if request.share_session_epoch == 0:
            self._release_all()
            self.session = Session()
            return 0
        if self.session is None:
            return ShareSessionNotFoundError.code
        if request.share_session_epoch == -1:
            return 0
        if request.share_session_epoch != self.session.epoch:
            return InvalidShareSessionEpochError.code
        self.session.epoch += 1
        return 0

    def _fetched_records(self, request: Any, answers: dict[tuple[bytes, int], int]) -> Any:
        assert self.session is not None
        topics: dict[bytes, Any] = {}
        for key in sorted(self.session.partitions | answers.keys()):
            data = fetched.PartitionData(
                partition_index=key[1], acknowledge_error_code=answers.get(key, 0), records=b""
            )
            if key in self.session.partitions and request.max_records:
                self._acquire(self._name(key), data, request.max_records)
            if data.acquired_records or key in answers:
                topics.setdefault(key[0], fetched.ShareFetchableTopicResponse(topic_id=key[0])).partitions.append(data)
        if not topics:
            return None
        return fetched.ShareFetchResponse(
            responses=list(topics.values()), acquisition_lock_timeout_ms=int(self.lock * 1000)
        )

    def _acquire(self, name: TopicPartition, data: Any, most: int) -> None:
        batches = []
        for base, end, batch in self.logs.get(name, []):
            there = [offset for offset in range(base, end) if self._delivery(name, offset).state == AVAILABLE][:most]
            most -= len(there)
            for offset in there:
                delivery = self._delivery(name, offset)
                delivery.state, delivery.until = ACQUIRED, self.now + self.lock
                delivery.count += 1
                data.acquired_records.append(fetched.AcquiredRecords(offset, offset, delivery.count))
            if there:
                batches.append(batch)
        data.records = b"".join(batches)

    def _acknowledge(self, key: tuple[bytes, int], batches: Any) -> int:
        if self.acknowledge_errors and (error := self.acknowledge_errors.pop(0)):
            return error
        name = self._name(key)
        said = [
            (offset, batch.acknowledge_types[min(at, len(batch.acknowledge_types) - 1)])
            for batch in batches
            for at, offset in enumerate(range(batch.first_offset, batch.last_offset + 1))
        ]
        if any(self._delivery(name, offset).state != ACQUIRED for offset, _ in said):
            return InvalidRecordStateError.code
        for offset, kind in said:
            delivery = self._delivery(name, offset)
            if kind == RENEW:
                delivery.until = self.now + self.lock
            elif kind == RELEASE:
                self._end_delivery(delivery)
            else:
                delivery.state = ACCEPTED if kind == ACCEPT else ARCHIVED
        return 0

    def _share_acknowledge(self, request: Any) -> Any:
        error = self._check_session(request) or self._error(ApiKey.SHARE_ACKNOWLEDGE)
        if error:
            return acknowledged.ShareAcknowledgeResponse(error_code=error)
        topics = []
        for topic in request.topics:
            partitions = [
                acknowledged.PartitionData(
                    partition_index=partition.partition_index,
                    error_code=self._acknowledge(
                        (topic.topic_id, partition.partition_index), partition.acknowledgement_batches
                    ),
                )
                for partition in topic.partitions
            ]
            topics.append(acknowledged.ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=partitions))
        if request.share_session_epoch == -1:
            self.connection_ended()
        return acknowledged.ShareAcknowledgeResponse(
            responses=topics, acquisition_lock_timeout_ms=int(self.lock * 1000)
        )

    def _name(self, key: tuple[bytes, int]) -> TopicPartition:
        return TopicPartition(next(name for name in self.topics if topic_id(name) == key[0]), key[1])

    def _let_go(self) -> None:
        """Answer the fetch that waits: the requests of a connection are answered in their order."""
        if self._parked is not None and self.app_selector is not None:
            self._parked = None
            if self.app_selector.waiting.get(NODE[0]):
                self.app_selector.respond(NODE[0], fetched.ShareFetchResponse())

    def next_change(self) -> float:
        """See `ScriptedCluster`."""
        return super().next_change() if self._parked is None else min(super().next_change(), self._parked[0])

    def advance(self, seconds: float) -> None:
        """Let time pass; a fetch that waits is answered when there are records, or its time is over."""
        super().advance(seconds)
        if self._parked is None or self.app_selector is None or self.session is None:
            return
        deadline, request = self._parked
        response = self._fetched_records(request, {})
        if response is not None or self.now >= deadline:
            self._parked = None
            if self.app_selector.waiting.get(NODE[0]):
                self.app_selector.respond(NODE[0], response or fetched.ShareFetchResponse())
