"""Requests and responses of the quorum: one topic, one partition, and who leads (RaftUtil)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.raft.voter_set import endpoint_of
from barnabas.protocol.messages import (
    begin_quorum_epoch_request,
    begin_quorum_epoch_response,
    end_quorum_epoch_request,
    end_quorum_epoch_response,
    fetch_request,
    fetch_response,
    fetch_snapshot_request,
    fetch_snapshot_response,
    vote_request,
    vote_response,
)
from barnabas.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from barnabas.protocol.messages.add_raft_voter_request import Listener as AddListener
from barnabas.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter_request import KRaftVersionFeature, UpdateRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter_request import Listener as UpdateListener
from barnabas.protocol.metadata_topic import CLUSTER_METADATA_TOPIC, CLUSTER_METADATA_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
    from barnabas.broker.raft.raft_config import RaftConfig
    from barnabas.broker.raft.replica_key import ReplicaKey
    from barnabas.broker.raft.voter_set import Endpoints

T = TypeVar("T")

METADATA_TOPIC, METADATA_TOPIC_ID = CLUSTER_METADATA_TOPIC, CLUSTER_METADATA_TOPIC_ID
PARTITION = 0
MAX_FETCH_BYTES = 8 << 20
_ADD_VOTER_TIMEOUT_MS = 30_000

VoteRequest = vote_request.VoteRequest
VoteResponse = vote_response.VoteResponse
BeginQuorumEpochRequest = begin_quorum_epoch_request.BeginQuorumEpochRequest
BeginQuorumEpochResponse = begin_quorum_epoch_response.BeginQuorumEpochResponse
EndQuorumEpochRequest = end_quorum_epoch_request.EndQuorumEpochRequest
EndQuorumEpochResponse = end_quorum_epoch_response.EndQuorumEpochResponse
FetchRequest = fetch_request.FetchRequest
FetchResponse = fetch_response.FetchResponse
FetchSnapshotRequest = fetch_snapshot_request.FetchSnapshotRequest
FetchSnapshotResponse = fetch_snapshot_response.FetchSnapshotResponse


def make_vote_request(
    config: RaftConfig, epoch: int, voter: ReplicaKey, log_end: OffsetAndEpoch, *, pre_vote: bool
) -> VoteRequest:
    """Ask a voter for its vote in an epoch, or whether it would give it."""
    partition = vote_request.PartitionData(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=config.node_id,
        replica_directory_id=config.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=log_end.epoch,
        last_offset=log_end.offset,
        pre_vote=pre_vote,
    )
    topic = vote_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=config.cluster_id, voter_id=voter.id, topics=[topic])


def make_begin_quorum_epoch_request(config: RaftConfig, epoch: int, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    """Tell a voter that this node leads."""
    partition = begin_quorum_epoch_request.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=config.node_id,
        leader_epoch=epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=config.cluster_id,
        voter_id=voter.id,
        topics=[begin_quorum_epoch_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[begin_quorum_epoch_request.LeaderEndpoint(*endpoint) for endpoint in config.listeners],
    )


def make_end_quorum_epoch_request(config: RaftConfig, epoch: int, preferred: list[ReplicaKey]) -> EndQuorumEpochRequest:
    """Tell a voter that this node leads no more, and who is best to follow it."""
    partition = end_quorum_epoch_request.PartitionData(
        partition_index=PARTITION,
        leader_id=config.node_id,
        leader_epoch=epoch,
        preferred_successors=[key.id for key in preferred],
        preferred_candidates=[end_quorum_epoch_request.ReplicaInfo(*key) for key in preferred],
    )
    return EndQuorumEpochRequest(
        cluster_id=config.cluster_id,
        topics=[end_quorum_epoch_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[end_quorum_epoch_request.LeaderEndpoint(*endpoint) for endpoint in config.listeners],
    )


def make_fetch_request(config: RaftConfig, epoch: int, log_end: OffsetAndEpoch, high_watermark: int) -> FetchRequest:
    """Ask for what follows this replica's log."""
    partition = fetch_request.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=log_end.offset,
        last_fetched_epoch=log_end.epoch,
        partition_max_bytes=MAX_FETCH_BYTES,
        replica_directory_id=config.directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=fetch_request.ReplicaState(replica_id=config.node_id),
        max_wait_ms=round(config.fetch_max_wait * 1000),
        max_bytes=MAX_FETCH_BYTES,
        topics=[fetch_request.FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [partition])],
    )


def make_fetch_snapshot_request(
    config: RaftConfig, epoch: int, snapshot_id: OffsetAndEpoch, position: int
) -> FetchSnapshotRequest:
    """Ask for a part of a snapshot."""
    partition = fetch_snapshot_request.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot_request.SnapshotId(snapshot_id.offset, snapshot_id.epoch),
        position=position,
        replica_directory_id=config.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=config.cluster_id,
        replica_id=config.node_id,
        max_bytes=MAX_FETCH_BYTES,
        topics=[fetch_snapshot_request.TopicSnapshot(METADATA_TOPIC, [partition])],
    )


def make_update_voter_request(config: RaftConfig, epoch: int) -> UpdateRaftVoterRequest:
    """Tell the leader this voter's endpoints."""
    node = config.local_node
    return UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=epoch,
        voter_id=node.key.id,
        voter_directory_id=node.key.directory_id,
        listeners=[UpdateListener(*endpoint) for endpoint in node.endpoints],
        k_raft_version_feature=KRaftVersionFeature(node.min_version, node.max_version),
    )


def make_add_voter_request(config: RaftConfig) -> AddRaftVoterRequest:
    """Ask the leader to make a voter of this observer (KIP-1186)."""
    return AddRaftVoterRequest(
        cluster_id=config.cluster_id,
        timeout_ms=_ADD_VOTER_TIMEOUT_MS,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=[AddListener(*endpoint) for endpoint in config.listeners],
        ack_when_committed=False,
    )


def make_remove_voter_request(config: RaftConfig, key: ReplicaKey) -> RemoveRaftVoterRequest:
    """Ask the leader to remove the voter that this node was with another directory."""
    return RemoveRaftVoterRequest(cluster_id=config.cluster_id, voter_id=key.id, voter_directory_id=key.directory_id)


class Leadership:
    """Who leads, as responses tell it on a listener."""

    __slots__ = ("endpoint", "epoch", "leader_id")

    def __init__(self, leader_id: int | None, epoch: int, endpoints: Endpoints, listener: str) -> None:
        self.leader_id = -1 if leader_id is None else leader_id
        self.epoch = epoch
        self.endpoint = None if leader_id is None else endpoint_of(endpoints, listener)

    def vote_response(self, error: int, *, granted: bool) -> VoteResponse:
        """Answer a Vote."""
        partition = vote_response.PartitionData(PARTITION, error, self.leader_id, self.epoch, granted)
        return VoteResponse(
            topics=[vote_response.TopicData(METADATA_TOPIC, [partition])],
            node_endpoints=self._endpoints(vote_response.NodeEndpoint),
        )

    def begin_quorum_epoch_response(self, error: int) -> BeginQuorumEpochResponse:
        """Answer a BeginQuorumEpoch."""
        partition = begin_quorum_epoch_response.PartitionData(PARTITION, error, self.leader_id, self.epoch)
        return BeginQuorumEpochResponse(
            topics=[begin_quorum_epoch_response.TopicData(METADATA_TOPIC, [partition])],
            node_endpoints=self._endpoints(begin_quorum_epoch_response.NodeEndpoint),
        )

    def end_quorum_epoch_response(self, error: int) -> EndQuorumEpochResponse:
        """Answer an EndQuorumEpoch."""
        partition = end_quorum_epoch_response.PartitionData(PARTITION, error, self.leader_id, self.epoch)
        return EndQuorumEpochResponse(
            topics=[end_quorum_epoch_response.TopicData(METADATA_TOPIC, [partition])],
            node_endpoints=self._endpoints(end_quorum_epoch_response.NodeEndpoint),
        )

    def fetch_response(self, partition: fetch_response.PartitionData) -> FetchResponse:
        """Answer a Fetch."""
        partition.current_leader = fetch_response.LeaderIdAndEpoch(self.leader_id, self.epoch)
        return FetchResponse(
            responses=[fetch_response.FetchableTopicResponse(METADATA_TOPIC, METADATA_TOPIC_ID, [partition])],
            node_endpoints=self._endpoints(fetch_response.NodeEndpoint),
        )

    def fetch_snapshot_response(self, partition: fetch_snapshot_response.PartitionSnapshot) -> FetchSnapshotResponse:
        """Answer a FetchSnapshot."""
        partition.current_leader = fetch_snapshot_response.LeaderIdAndEpoch(self.leader_id, self.epoch)
        return FetchSnapshotResponse(
            topics=[fetch_snapshot_response.TopicSnapshot(METADATA_TOPIC, [partition])],
            node_endpoints=self._endpoints(fetch_snapshot_response.NodeEndpoint),
        )

    def _endpoints(self, kind: Callable[[int, str, int], T]) -> list[T]:
        found = self.endpoint
        return [] if found is None else [kind(self.leader_id, found.host, found.port)]
