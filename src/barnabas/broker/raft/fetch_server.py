"""The leader's side of replication: Fetch, FetchSnapshot and DescribeQuorum (KIP-595, 630, 836, 1166)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.raft.leader_state import LeaderState, ReplicaState
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.raft_messages import (
    MAX_FETCH_BYTES,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    PARTITION,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from barnabas.broker.raft.replica import INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, NONE, NOT_LEADER_OR_FOLLOWER
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.broker.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID, Divergence, validate_offset_and_epoch
from barnabas.protocol.messages import describe_quorum_response, fetch_response, fetch_snapshot_response
from barnabas.protocol.messages.describe_quorum_response import DescribeQuorumResponse

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.raft.replica import Replica
    from barnabas.protocol.messages.describe_quorum_request import DescribeQuorumRequest
    from barnabas.protocol.messages.fetch_request import FetchPartition

UNKNOWN_TOPIC_OR_PARTITION = errors.UnknownTopicOrPartitionError.code
SNAPSHOT_NOT_FOUND = errors.SnapshotNotFoundError.code
POSITION_OUT_OF_RANGE = errors.PositionOutOfRangeError.code


class _Parked(NamedTuple):
    """A fetch that waits for something new."""

    request_id: int
    request: FetchRequest
    listener: str
    deadline: float


class FetchServer:
    """Serves the log to voters and observers; their offsets say what they have on their disks."""

    __slots__ = ("_parked", "_replica")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._parked: list[_Parked] = []

    @property
    def deadline(self) -> float:
        """When the first fetch that waits is to be answered in any case."""
        return min((parked.deadline for parked in self._parked), default=inf)

    # -- Fetch -------------------------------------------------------------------------------------------------------

    def handle_fetch(self, request_id: int, request: FetchRequest, listener: str, now: Instant) -> None:
        """Answer a fetch, or let it wait."""
        replica = self._replica
        if not replica.has_cluster_id(request.cluster_id):
            replica.respond(request_id, FetchResponse(error_code=INCONSISTENT_CLUSTER_ID))
            return
        if not self._is_metadata_topic(request):
            replica.respond(request_id, FetchResponse(error_code=INVALID_REQUEST))
            return
        asked = request.topics[0].partitions[0]
        if (
            request.max_wait_ms < 0
            or asked.fetch_offset < 0
            or not 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch
        ):
            replica.respond(request_id, self._refused(INVALID_REQUEST, listener))
            return
        response = self._try(request, listener, now)
        if request.max_wait_ms == 0 or self._says_something(response, asked):
            replica.respond(request_id, response)
        else:
            self._parked.append(_Parked(request_id, request, listener, now.now + request.max_wait_ms / 1000))

    @staticmethod
    def _is_metadata_topic(request: FetchRequest) -> bool:
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return False
        topic = request.topics[0]
        named = topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC
        return named and topic.partitions[0].partition == PARTITION

    @staticmethod
    def _says_something(response: FetchResponse, asked: FetchPartition) -> bool:
        found = response.responses[0].partitions[0]
        return bool(
            found.error_code
            or found.records
            or found.diverging_epoch.epoch >= 0
            or found.snapshot_id.epoch >= 0
            or asked.high_watermark < found.high_watermark
        )

    def settle(self, now: Instant) -> None:
        """Answer the fetches that have something to be told now, or have waited long enough."""
        if not self._parked:
            return
        parked, self._parked = self._parked, []
        for one in parked:
            response = self._try(one.request, one.listener, now, is_new=False)
            if now.now >= one.deadline or self._says_something(response, one.request.topics[0].partitions[0]):
                self._replica.respond(one.request_id, response)
            else:
                self._parked.append(one)

    def _try(self, request: FetchRequest, listener: str, now: Instant, *, is_new: bool = True) -> FetchResponse:
        """Answer as of now. A fetch that has waited says nothing new of its sender, who may have restarted since."""
        replica = self._replica
        asked = request.topics[0].partitions[0]
        error = replica.check_leader_only(asked.current_leader_epoch)
        if error:
            return self._refused(error, listener)
        state = replica.quorum.state
        assert isinstance(state, LeaderState)
        found = self._divergence(asked)
        records = b""
        if found.is_valid:
            sender = request.replica_state.replica_id if request.replica_id < 0 else request.replica_id
            if is_new and sender >= 0 and sender != replica.config.node_id:
                key = ReplicaKey(sender, asked.replica_directory_id)
                if state.update_replica(key, asked.fetch_offset, now):
                    replica.committed(state)
            records = replica.log.read(asked.fetch_offset, min(request.max_bytes, MAX_FETCH_BYTES))
        return self._response(NONE, listener, records, found, state.high_watermark)

    def _divergence(self, asked: FetchPartition) -> Divergence:
        latest = self._replica.log.latest_snapshot_id
        if asked.fetch_offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT_ID:
            # Who has nothing gets the snapshot, also where the log still begins at 0: that is less to send.
            return Divergence(latest, needs_snapshot=True)
        return validate_offset_and_epoch(self._replica.log, asked.fetch_offset, asked.last_fetched_epoch)

    def _refused(self, error: int, listener: str) -> FetchResponse:
        return self._response(error, listener, b"", Divergence(OffsetAndEpoch(-1, -1), is_valid=True), None)

    def _response(
        self, error: int, listener: str, records: bytes, found: Divergence, high_watermark: int | None
    ) -> FetchResponse:
        partition = fetch_response.PartitionData(
            partition_index=PARTITION,
            error_code=error,
            high_watermark=-1 if high_watermark is None else high_watermark,
            log_start_offset=self._replica.log.start_offset,
            records=records,
        )
        offset, epoch = found.offset_and_epoch
        if found.needs_snapshot:
            partition.snapshot_id = fetch_response.SnapshotId(end_offset=offset, epoch=epoch)
        elif not found.is_valid:
            partition.diverging_epoch = fetch_response.EpochEndOffset(epoch=epoch, end_offset=offset)
        return self._replica.leadership(listener).fetch_response(partition)

    # -- FetchSnapshot -----------------------------------------------------------------------------------------------

    def handle_fetch_snapshot(self, request: FetchSnapshotRequest, listener: str, now: float) -> FetchSnapshotResponse:
        """Answer with a part of a snapshot."""
        replica = self._replica
        if not replica.has_cluster_id(request.cluster_id):
            return FetchSnapshotResponse(error_code=INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return FetchSnapshotResponse(error_code=INVALID_REQUEST)
        asked = request.topics[0].partitions[0]
        answer = fetch_snapshot_response.PartitionSnapshot(index=asked.partition)
        leadership = replica.leadership(listener)
        if request.topics[0].name != METADATA_TOPIC or asked.partition != PARTITION:
            answer.error_code = UNKNOWN_TOPIC_OR_PARTITION
            return leadership.fetch_snapshot_response(answer)
        snapshot_id = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        size = replica.log.snapshot_size(snapshot_id)
        answer.error_code = replica.check_leader_only(asked.current_leader_epoch)
        if answer.error_code:
            return leadership.fetch_snapshot_response(answer)
        if size is None or snapshot_id == BOOTSTRAP_SNAPSHOT_ID:
            # The first leader writes what the bootstrap snapshot says into the log.
            answer.error_code = SNAPSHOT_NOT_FOUND
        elif not 0 <= asked.position < size:
            answer.error_code = POSITION_OUT_OF_RANGE
        else:
            state = replica.quorum.state
            assert isinstance(state, LeaderState)
            state.heard_from(ReplicaKey(request.replica_id, asked.replica_directory_id), now)
            answer.snapshot_id = fetch_snapshot_response.SnapshotId(*snapshot_id)
            answer.size, answer.position = size, asked.position
            most = min(request.max_bytes, MAX_FETCH_BYTES)
            answer.unaligned_records = replica.log.read_snapshot(snapshot_id, asked.position, most)
        return leadership.fetch_snapshot_response(answer)

    # -- DescribeQuorum ----------------------------------------------------------------------------------------------

    def handle_describe_quorum(self, request: DescribeQuorumRequest, now: Instant) -> DescribeQuorumResponse:
        """Say who votes, who observes, and how far each of them is."""
        replica = self._replica
        state = replica.quorum.state
        partition = describe_quorum_response.PartitionData(partition_index=PARTITION)
        topic = describe_quorum_response.TopicData(METADATA_TOPIC, [partition])
        asked = [(found.topic_name, [one.partition_index for one in found.partitions]) for found in request.topics]
        if asked != [(METADATA_TOPIC, [PARTITION])]:
            return DescribeQuorumResponse(topics=[_unknown(name, partitions) for name, partitions in asked])
        if not isinstance(state, LeaderState) or replica.is_shutting_down:
            partition.error_code = NOT_LEADER_OR_FOLLOWER
            return DescribeQuorumResponse(topics=[topic])
        partition.leader_id, partition.leader_epoch = state.leader_id, state.epoch
        partition.high_watermark = -1 if state.high_watermark is None else state.high_watermark
        partition.current_voters = [self._described(state, found, now) for found in state.voters.values()]
        partition.observers = [self._described(state, found, now) for found in state.current_observers(now.now)]
        voters = replica.partition_state.last_voter_set
        nodes = [
            describe_quorum_response.Node(
                node.key.id, [describe_quorum_response.Listener(*endpoint) for endpoint in node.endpoints]
            )
            for node in voters
        ]
        return DescribeQuorumResponse(topics=[topic], nodes=nodes)

    @staticmethod
    def _described(state: LeaderState, found: ReplicaState, now: Instant) -> describe_quorum_response.ReplicaState:
        is_local = found.key.matches(state.local)
        end_offset = state.log_end_offset if is_local else found.end_offset
        return describe_quorum_response.ReplicaState(
            replica_id=found.key.id,
            replica_directory_id=found.key.directory_id,
            log_end_offset=-1 if end_offset is None else end_offset,
            last_fetch_timestamp=now.now_ms if is_local else found.last_fetch_ms,
            last_caught_up_timestamp=now.now_ms if is_local else found.last_caught_up_ms,
        )


def _unknown(name: str, partitions: list[int]) -> describe_quorum_response.TopicData:
    return describe_quorum_response.TopicData(
        name,
        [
            describe_quorum_response.PartitionData(partition_index=index, error_code=UNKNOWN_TOPIC_OR_PARTITION)
            for index in partitions
        ],
    )
