"""What a node of the quorum is, and its timeouts (QuorumConfig)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.broker.raft.voter_set import Endpoints, VoterNode, VoterSet

if TYPE_CHECKING:
    from barnabas.network.node import Node

MIN_KRAFT_VERSION, MAX_KRAFT_VERSION = 0, 1


@dataclass(frozen=True, kw_only=True)
class RaftConfig:
    """Settings under Kafka's names (`controller.quorum.*`), in seconds.

    `listeners` are this node's own, `listener_name` the one under which the voters speak with each other. `bootstrap`
    are asked while no leader is known; the static voters if it is empty.
    """

    node_id: int
    directory_id: bytes
    cluster_id: str
    listeners: Endpoints
    listener_name: str = "CONTROLLER"
    static_voters: VoterSet = field(default_factory=VoterSet)
    bootstrap: tuple[Node, ...] = ()
    election_timeout: float = 1.0
    fetch_timeout: float = 2.0
    election_backoff_max: float = 1.0
    append_linger: float = 0.025
    request_timeout: float = 2.0
    retry_backoff: float = 0.02
    fetch_max_wait: float = 0.5
    auto_join: bool = False
    #: Whether this node may become a voter at all: controllers may, brokers only observe.
    can_become_voter: bool = True

    @property
    def local(self) -> ReplicaKey:
        """This replica."""
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def local_node(self) -> VoterNode:
        """What this node says of itself as a voter."""
        return VoterNode(self.local, self.listeners, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION)

    @property
    def update_voter_period(self) -> float:
        """How often a follower looks whether the voters know its endpoints."""
        return self.fetch_timeout
