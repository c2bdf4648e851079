"""A cluster of one broker on virtual time, for a consumer's tests: its answers are scripted, time passes in `poll`.

Both cores of a consumer run here in one thread: while the application's core waits, the membership core works. So a
test is deterministic, and a session that lasts minutes is over in milliseconds.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from barnabas.client.consumer.consumer import Consumer
from barnabas.client.environment import Environment
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse
from barnabas.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.leave_group_response import LeaveGroupResponse
from barnabas.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from barnabas.protocol.messages.sync_group_response import SyncGroupResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from tests.support.network_fakes import FakeSelector, all_api_versions, metadata_response

TICK = 0.01
NODE = (0, "broker", 9092)
FOLLOWER = (1, "follower", 9093)


def topic_id(name: str) -> bytes:
    """The id of a topic of this cluster."""
    return name.encode().ljust(16, b"\1")[:16]


class VirtualSelector(FakeSelector):
    """A selector that lets the whole environment live while it waits."""

    def __init__(self, environment: ScriptedCluster, *, is_membership: bool) -> None:
        super().__init__()
        self._environment = environment
        self._is_membership = is_membership
        self.is_woken = False

    def wakeup(self) -> None:
        """The next poll does not wait."""
        super().wakeup()
        self.is_woken = True

    def poll(self, timeout: float, now: float) -> float:
        """Deliver what there is; the application's selector otherwise lets time pass."""
        environment = self._environment
        deadline = environment.now + timeout
        while True:
            super().poll(0.0, environment.now)
            happened = self.connected or self.disconnected or self.completed_sends or self.completed_receives
            if self._is_membership:
                return environment.now
            environment.run_membership()
            if happened or self.is_woken or environment.now >= deadline:
                self.is_woken = False
                return environment.now
            environment.advance(min(TICK, deadline - environment.now))


class ScriptedCluster(Environment):
    """Topics, committed offsets and one group, and what was asked of them.

    `errors[ApiKey.X]` holds error codes for the next requests of that kind; requests in `hold` are left unanswered,
    and the broker does not know those in `lacks`.
    """

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.now = 1000.0
        self.topics: dict[str, int] = {"t": 2}
        self.leader_epoch = 0
        self.logs: dict[TopicPartition, list[tuple[int, int, bytes]]] = {}
        self.log_start: dict[TopicPartition, int] = {}
        self.last_stable: dict[TopicPartition, int] = {}
        self.aborted: dict[TopicPartition, Any] = {}
        self.epoch_ends: dict[TopicPartition, tuple[int, int]] = {}
        self.committed: dict[TopicPartition, tuple[int, int, str]] = {}
        self.requests: list[tuple[ApiKey, Any, float]] = []
        self.errors: dict[int, deque[int]] = {}
        self.hold: set[int] = set()
        self.lacks: set[int] = set()
        self.generation = 0
        self.member_ids = map("member-{}".format, itertools.count(1))
        self.assign: Callable[[dict[str, bytes]], bytes] | None = None
        # The consumer protocol: the epoch, and what its one member shall own (everything, when None).
        self.member_epoch = 0
        self.heartbeat_interval_ms = 5_000
        self.wanted: set[TopicPartition] | None = None
        self._told: set[TopicPartition] | None = None
        # The nodes of the cluster, and the one that the leader sends readers with a rack to; see FOLLOWER.
        self.nodes = [NODE]
        self.preferred_replica = -1
        self.fetched_from: list[int] = []
        self._node = NODE[0]
        self.app_selector: VirtualSelector | None = None
        self.group_selector: VirtualSelector | None = None
        self._core: Any = None
        self._scheduled: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._waiting_fetch: tuple[float, Any, int] | None = None
        self._handlers = {
            ApiKey.API_VERSIONS: lambda request: self._api_versions(),
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.JOIN_GROUP: self._join_group,
            ApiKey.SYNC_GROUP: self._sync_group,
            ApiKey.HEARTBEAT: lambda request: HeartbeatResponse(error_code=self._error(ApiKey.HEARTBEAT)),
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self._consumer_group_heartbeat,
            ApiKey.LEAVE_GROUP: lambda request: LeaveGroupResponse(error_code=self._error(ApiKey.LEAVE_GROUP)),
            ApiKey.OFFSET_COMMIT: self._offset_commit,
            ApiKey.OFFSET_FETCH: self._offset_fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._offset_for_leader_epoch,
            ApiKey.FETCH: self._fetch,
        }

    # --- what a test does

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """A consumer of this cluster."""
        return Consumer(*topics, bootstrap_servers="broker:9092", environment=self, **settings)

    def append(self, topic: str, partition: int, *values: bytes, epoch: int = 0) -> None:
        """Add a batch of records with these values to a log."""
        log = self.logs.setdefault(TopicPartition(topic, partition), [])
        builder = RecordBatchBuilder(1 << 20)
        for number, value in enumerate(values):
            builder.try_append(5_000 + number, b"k", value, [])
        base = self.log_end(TopicPartition(topic, partition))
        batch = bytearray(builder.close(base_offset=base))
        batch[12:16] = epoch.to_bytes(4, "big")
        log.append((base, base + len(values), bytes(batch)))

    def log_end(self, partition: TopicPartition) -> int:
        """The offset after the last record."""
        log = self.logs.get(partition)
        return log[-1][1] if log else self.log_start.get(partition, 0)

    def at(self, delay: float, action: Callable[[], object]) -> None:
        """Do something when so many seconds have passed."""
        heapq.heappush(self._scheduled, (self.now + delay, next(self._numbers), action))

    def asked(self, key: ApiKey) -> list[Any]:
        """The requests of one kind, in order."""
        return [request for kind, request, _ in self.requests if kind == key]

    def times(self, key: ApiKey) -> list[float]:
        """When they came."""
        return [when for kind, _, when in self.requests if kind == key]

    def sleep(self, seconds: float) -> None:
        """The application does something else for so long; the membership core goes on."""
        deadline = self.now + seconds
        while self.now < deadline:
            self.run_membership()
            self.advance(min(TICK, deadline - self.now))

    # --- the environment

    def clock(self) -> float:
        """Virtual seconds."""
        return self.now

    def wall_clock_ms(self) -> int:
        """Virtual epoch milliseconds."""
        return 1_700_000_000_000 + int(self.now * 1000)

    def selector(self, config: Any, client_id: str) -> VirtualSelector:
        """The first is the application's, the second the membership core's."""
        selector = self.new_selector(is_membership=self.app_selector is not None)
        selector.handlers = {key: self._handler(key, selector) for key in self._handlers}
        if self.app_selector is None:
            self.app_selector = selector
        else:
            self.group_selector = selector
        return selector

    def new_selector(self, *, is_membership: bool) -> VirtualSelector:
        """The way to this cluster of one of a consumer's cores."""
        return VirtualSelector(self, is_membership=is_membership)

    def run(self, core: Any, name: str) -> Callable[[float], None]:
        """The membership core runs whenever the application waits."""
        self._core = core

        def join(timeout: float) -> None:
            deadline = self.now + timeout
            while not core.is_done and self.now < deadline:
                self.run_membership()
                self.advance(TICK)

        return join

    def run_membership(self) -> None:
        """Let the membership core do what it can now."""
        for _ in range(4):
            if self._core is not None and not self._core.is_done:
                try:
                    self._core.run_once(self.now)
                except BaseException as error:  # noqa: BLE001 - as CoreThread does
                    self._core.fail(error)
                if self._core.is_done:
                    self._core.close()

    def next_change(self) -> float:
        """When the cluster does something by itself the next time."""
        when = self._scheduled[0][0] if self._scheduled else float("inf")
        return when if self._waiting_fetch is None else min(when, self._waiting_fetch[0])

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        while self._scheduled and self._scheduled[0][0] <= self.now:
            heapq.heappop(self._scheduled)[2]()
        self._answer_waiting_fetch()

    # --- the broker

    def _handler(self, key: int, selector: VirtualSelector) -> Callable[[Any], Any]:
        def handle(request: Any) -> Any:
            if self._waiting_fetch is not None and selector is self.app_selector:
                # Answers come in the order of the requests, so the fetch that is parked is let go.
                *_, node = self._waiting_fetch
                self._waiting_fetch = None
                if selector.waiting.get(node):
                    selector.respond(node, FetchResponse())
            self._node = selector.received[-1][0]
            self.requests.append((ApiKey(key), request, self.now))
            return None if key in self.hold else self._handlers[ApiKey(key)](request)

        return handle

    def _error(self, key: ApiKey) -> int:
        waiting = self.errors.get(key)
        return waiting.popleft() if waiting else 0

    def _api_versions(self) -> Any:
        response = all_api_versions()
        response.api_keys = [entry for entry in response.api_keys if entry.api_key not in self.lacks]
        return response

    def _metadata(self, request: Any) -> Any:
        names = {topic_id(name): name for name in self.topics}
        asked = () if request.topics is None else request.topics
        wanted = {topic.name or names[topic.topic_id] for topic in asked} if request.topics is not None else self.topics
        known = {name: count for name, count in self.topics.items() if name in wanted}
        missing = {name: 3 for name in wanted if name not in self.topics}
        return metadata_response(self.nodes, known, leader_epoch=self.leader_epoch, errors=missing)

    def _find_coordinator(self, request: Any) -> Any:
        node_id, host, port = NODE
        found = Coordinator(
            key="", node_id=node_id, host=host, port=port, error_code=self._error(ApiKey.FIND_COORDINATOR)
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _join_group(self, request: Any) -> Any:
        error = self._error(ApiKey.JOIN_GROUP)
        member_id = request.member_id or next(self.member_ids)
        if error:
            return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name="")
        if not request.member_id and request.group_instance_id is None:
            return JoinGroupResponse(error_code=79, member_id=member_id, protocol_name="")
        self.generation += 1
        member = JoinGroupResponseMember(member_id=member_id, metadata=request.protocols[0].metadata)
        is_leader = self.assign is None
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader=member_id if is_leader else "another",
            member_id=member_id,
            members=[member] if is_leader else [],
        )

    def _sync_group(self, request: Any) -> Any:
        error = self._error(ApiKey.SYNC_GROUP)
        if error:
            return SyncGroupResponse(error_code=error)
        given = {entry.member_id: entry.assignment for entry in request.assignments}
        assignment = given[request.member_id] if self.assign is None else self.assign(given)
        return SyncGroupResponse(
            protocol_type="consumer", protocol_name=request.protocol_name, assignment=bytes(assignment)
        )

    def _consumer_group_heartbeat(self, request: Any) -> Any:
        """Member's epoch and target; a change of `wanted` comes with the next heartbeat and makes a new epoch."""
        error = self._error(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        if error or request.member_epoch < 0:
            return ConsumerGroupHeartbeatResponse(error_code=error, member_epoch=request.member_epoch)
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
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.member_epoch,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            assignment=assignment,
        )

    def _offset_commit(self, request: Any) -> Any:
        error = self._error(ApiKey.OFFSET_COMMIT)
        topics = []
        for topic in request.topics:
            for partition in topic.partitions:
                if not error:
                    self.committed[TopicPartition(topic.name, partition.partition_index)] = (
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                    )
            partitions = [
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ]
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return OffsetCommitResponse(topics=topics)

    def _offset_fetch(self, request: Any) -> Any:
        topics = []
        for topic in request.groups[0].topics:
            partitions = []
            for number in topic.partition_indexes:
                offset, epoch, note = self.committed.get(TopicPartition(topic.name, number), (-1, -1, ""))
                partitions.append(
                    OffsetFetchResponsePartitions(
                        partition_index=number, committed_offset=offset, committed_leader_epoch=epoch, metadata=note
                    )
                )
            topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
        error = self._error(ApiKey.OFFSET_FETCH)
        group = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=topics, error_code=error)
        return OffsetFetchResponse(groups=[group])

    def _list_offsets(self, request: Any) -> Any:
        error = self._error(ApiKey.LIST_OFFSETS)
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                name = TopicPartition(topic.name, asked.partition_index)
                start = self.log_start.get(name, 0)
                log = self.logs.get(name, [])
                end = log[-1][1] if log else start
                offset = {-2: start, -1: end}.get(asked.timestamp, -1)
                partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, offset=offset, timestamp=-1, error_code=error
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _offset_for_leader_epoch(self, request: Any) -> Any:
        topics = []
        for topic in request.topics:
            ends = []
            for asked in topic.partitions:
                name = TopicPartition(topic.topic, asked.partition)
                log = self.logs.get(name, [])
                epoch, end = self.epoch_ends.get(name, (asked.leader_epoch, log[-1][1] if log else 0))
                ends.append(EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end))
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _fetch(self, request: Any) -> Any:
        if request.session_epoch == -1:
            return FetchResponse()
        self.fetched_from.append(self._node)
        response = self._fetched(request)
        if response is None:
            self._waiting_fetch = (self.now + request.max_wait_ms / 1000, request, self._node)
        return response

    def _answer_waiting_fetch(self) -> None:
        if self._waiting_fetch is None or self.app_selector is None:
            return
        deadline, request, self._node = self._waiting_fetch
        waiting = self.app_selector.waiting.get(self._node)
        response = self._fetched(request)
        if not waiting or waiting[0][1] is not request:
            self._waiting_fetch = None
        elif response is not None or self.now >= deadline:
            self._waiting_fetch = None
            self.app_selector.respond(self._node, response or FetchResponse())

    def _fetched(self, request: Any) -> Any:
        names = {topic_id(name): name for name in self.topics}
        error = self._error(ApiKey.FETCH)
        topics = []
        for topic in request.topics:
            is_elsewhere = request.rack_id and self._node == NODE[0] and self.preferred_replica >= 0
            found = [
                PartitionData(partition_index=asked.partition, preferred_read_replica=self.preferred_replica)
                if is_elsewhere
                else self._fetched_partition(names[topic.topic_id], asked, error)
                for asked in topic.partitions
            ]
            found = [data for data in found if data is not None]
            if found:
                topics.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=found))
        return FetchResponse(responses=topics) if topics else None

    def _fetched_partition(self, topic: str, asked: Any, error: int) -> Any:
        name = TopicPartition(topic, asked.partition)
        log = self.logs.get(name, [])
        start = self.log_start.get(name, 0)
        end = log[-1][1] if log else start
        if not error and not start <= asked.fetch_offset <= end:
            error = 1
        batches = [batch for base, next_base, batch in log if next_base > asked.fetch_offset and base >= start]
        if not error and not batches:
            return None
        return PartitionData(
            partition_index=asked.partition,
            error_code=error,
            high_watermark=end,
            last_stable_offset=self.last_stable.get(name, end),
            log_start_offset=start,
            aborted_transactions=self.aborted.get(name),
            records=b"" if error else b"".join(batches[:2]),
        )
