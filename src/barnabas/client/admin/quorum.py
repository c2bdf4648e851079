"""The quorum of controllers that keeps the cluster's metadata (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.admin_api_handler import Outcome, Scope, StaticLookup
from barnabas.client.admin.requests import KeyedRequest, one_request
from barnabas.errors import ClusterAuthorizationError, KafkaError, UnsupportedVersionError
from barnabas.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from barnabas.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from barnabas.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from barnabas.protocol.metadata_topic import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from barnabas.client.admin.cluster import ClusterDescription
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_quorum_response import DescribeQuorumResponse
    from barnabas.protocol.messages.describe_quorum_response import ReplicaState as DescribedReplica


#: Seconds for who only shows a cluster: a broker passes the question on, and waits for a controller while it is let.
CONTROLLER_ANSWERS_WITHIN = 3.0


class RaftVoterEndpoint(NamedTuple):
    """Where a controller listens, by the name of the listener."""

    listener: str
    host: str
    port: int


class ReplicaState(NamedTuple):
    """How far a replica of the metadata is; times are epoch milliseconds, -1 when not known."""

    replica_id: int
    replica_directory_id: bytes
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class QuorumInfo(NamedTuple):
    """The quorum: its leader (-1 when there is none), those that vote and those that only follow.

    `nodes` says where the voters listen, by id, if the broker tells (Kafka 3.9).
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[ReplicaState]
    observers: list[ReplicaState]
    nodes: dict[int, list[RaftVoterEndpoint]]


class ActiveController(NamedTuple):
    """Who changes the metadata now: a node's id, None where there is none or it is not told.

    `epoch` is that in which it leads the quorum; clients are told none of a controller under ZooKeeper, nor of a broker
    that is alone. `error` is why the quorum did not answer.
    """

    id: int | None
    epoch: int | None
    error: KafkaError | None = None

    @property
    def is_missing(self) -> bool:
        """Whether there is none, as far as it was allowed to ask."""
        return self.id is None and not isinstance(self.error, ClusterAuthorizationError)


def active_controller(cluster: ClusterDescription, quorum: QuorumInfo | KafkaError) -> ActiveController:
    """Return who is controller, by what describe_cluster and describe_metadata_quorum found.

    With a quorum, a broker names any broker that lives as the controller (KIP-500: for requests that it forwards), so
    only the quorum tells; without one, the broker that is named is the controller itself.
    """
    if isinstance(quorum, QuorumInfo):
        return ActiveController(quorum.leader_id if quorum.leader_id >= 0 else None, quorum.leader_epoch)
    if isinstance(quorum, UnsupportedVersionError):
        return ActiveController(cluster.controller.id if cluster.controller else None, None)
    return ActiveController(None, None, quorum)


class DescribeQuorumHandler:
    """DescribeQuorum, at any broker; its only key is "quorum"."""

    name = "describe_metadata_quorum"

    def __init__(self) -> None:
        self.lookup: StaticLookup[str] = StaticLookup(Scope.ANY)

    def build_request(self, keys: list[str], timeout_ms: int) -> DescribeQuorumRequest:
        """See `AdminApiHandler`."""
        topic = TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
        return DescribeQuorumRequest(topics=[topic])

    def handle_response(
        self, keys: list[str], response: DescribeQuorumResponse, outcome: Outcome[str, QuorumInfo]
    ) -> None:
        """See `AdminApiHandler`."""
        if not outcome.is_success(keys[0], response.error_code, response.error_message):
            return
        partition = next((p for topic in response.topics for p in topic.partitions), None)
        if partition is None or not outcome.is_success(keys[0], partition.error_code, partition.error_message):
            return
        nodes = {
            node.node_id: [RaftVoterEndpoint(at.name, at.host, at.port) for at in node.listeners]
            for node in response.nodes
        }
        info = QuorumInfo(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            [_state(replica) for replica in partition.current_voters],
            [_state(replica) for replica in partition.observers],
            nodes,
        )
        outcome.complete(keys[0], info)


def _state(replica: DescribedReplica) -> ReplicaState:
    return ReplicaState(
        replica.replica_id,
        replica.replica_directory_id,
        replica.log_end_offset,
        replica.last_fetch_timestamp,
        replica.last_caught_up_timestamp,
    )


def add_voter(
    voter_id: int, directory_id: bytes, endpoints: Iterable[RaftVoterEndpoint], cluster_id: str | None
) -> KeyedRequest[str, None]:
    """AddRaftVoter, at any broker."""
    listeners = [Listener(name=at.listener, host=at.host, port=at.port) for at in endpoints]

    def build(timeout_ms: int) -> AddRaftVoterRequest:
        return AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=timeout_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=listeners,
        )

    return one_request("add_raft_voter", build, _nothing)


def remove_voter(voter_id: int, directory_id: bytes, cluster_id: str | None) -> KeyedRequest[str, None]:
    """RemoveRaftVoter, at any broker."""
    request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id)
    return one_request("remove_raft_voter", lambda timeout_ms: request, _nothing)


def _nothing(response: Message) -> None:
    return None
