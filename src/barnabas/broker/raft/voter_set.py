"""Who votes, and under which addresses (VoterSet, Endpoints)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.network.node import Node
from barnabas.protocol.messages.voters_record import Endpoint as RecordEndpoint
from barnabas.protocol.messages.voters_record import KRaftVersionFeature, Voter, VotersRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Endpoint(NamedTuple):
    """Where a node listens under a listener's name."""

    name: str
    host: str
    port: int


#: A node's endpoints, one for a listener, sorted.
Endpoints = tuple[Endpoint, ...]


def endpoint_of(endpoints: Endpoints, listener: str) -> Endpoint | None:
    """Return the endpoint of a listener; its name counts without regard to case."""
    return next((endpoint for endpoint in endpoints if endpoint.name.upper() == listener.upper()), None)


class VoterNode(NamedTuple):
    """A voter, its endpoints, and the levels of `kraft.version` that it supports."""

    key: ReplicaKey
    endpoints: Endpoints
    min_version: int = 0
    max_version: int = 0


class VoterSet:
    """The voters by id; immutable. What changes it returns another set."""

    __slots__ = ("_nodes",)

    def __init__(self, nodes: Iterable[VoterNode] = ()) -> None:
        self._nodes: Mapping[int, VoterNode] = {node.key.id: node for node in sorted(nodes)}

    @classmethod
    def from_addresses(cls, listener: str, addresses: Mapping[int, tuple[str, int]]) -> VoterSet:
        """Make the static set of `controller.quorum.voters`, whose directories are not known."""
        return cls(
            VoterNode(ReplicaKey(voter), (Endpoint(listener, host, port),)) for voter, (host, port) in addresses.items()
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        """Read a VotersRecord."""
        return cls(
            VoterNode(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                tuple(sorted(Endpoint(found.name, found.host, found.port) for found in voter.endpoints)),
                voter.k_raft_version_feature.min_supported_version,
                voter.k_raft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        """Write a VotersRecord."""
        return VotersRecord(
            voters=[
                Voter(
                    voter_id=node.key.id,
                    voter_directory_id=node.key.directory_id,
                    endpoints=[RecordEndpoint(name, host, port) for name, host, port in node.endpoints],
                    k_raft_version_feature=KRaftVersionFeature(node.min_version, node.max_version),
                )
                for node in self
            ]
        )

    def __iter__(self) -> Iterator[VoterNode]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._nodes == other._nodes

    def __hash__(self) -> int:
        return hash(tuple(self._nodes.values()))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(node.key.id) for node in self)})"

    @property
    def ids(self) -> list[int]:
        """The voters' ids, ascending."""
        return list(self._nodes)

    @property
    def keys(self) -> set[ReplicaKey]:
        """The voters' keys."""
        return {node.key for node in self}

    def get(self, voter_id: int) -> VoterNode | None:
        """Return a voter by its id."""
        return self._nodes.get(voter_id)

    def is_voter(self, key: ReplicaKey) -> bool:
        """Say whether a replica votes."""
        found = self._nodes.get(key.id)
        return found is not None and found.key.matches(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """Say whether a replica votes, and no other."""
        return len(self._nodes) == 1 and self.is_voter(key)

    def endpoints(self, voter_id: int) -> Endpoints:
        """Return a voter's endpoints; none for who does not vote."""
        found = self._nodes.get(voter_id)
        return () if found is None else found.endpoints

    def address(self, voter_id: int, listener: str) -> Node | None:
        """Return where a voter is reached under a listener's name."""
        found = endpoint_of(self.endpoints(voter_id), listener)
        return None if found is None else Node(voter_id, found.host, found.port)

    def needs_update(self, node: VoterNode) -> bool:
        """Say whether the voter says something else of itself now."""
        found = self._nodes.get(node.key.id)
        return found is not None and found.key.matches(node.key) and found != node

    def add(self, node: VoterNode) -> VoterSet | None:
        """Add a voter; None where its id votes already."""
        return None if node.key.id in self._nodes else VoterSet([*self, node])

    def remove(self, key: ReplicaKey) -> VoterSet | None:
        """Remove a voter; None for one that is none, or the last."""
        found = self._nodes.get(key.id)
        if found is None or found.key != key or len(self._nodes) == 1:
            return None
        return VoterSet(node for node in self if node.key.id != key.id)

    def update(self, node: VoterNode) -> VoterSet | None:
        """Put what a voter says of itself; None for one that is none."""
        found = self._nodes.get(node.key.id)
        if found is None or not found.key.matches(node.key):
            return None
        return VoterSet([node, *(other for other in self if other.key.id != node.key.id)])

    def update_regardless_of_directory(self, node: VoterNode) -> VoterSet | None:
        """Put what a voter says of itself, its directory with it; None for an id that does not vote."""
        if node.key.id not in self._nodes:
            return None
        return VoterSet([node, *(other for other in self if other.key.id != node.key.id)])

    def supports(self, kraft_version: int) -> bool:
        """Say whether all voters support a level of `kraft.version`."""
        return all(node.min_version <= kraft_version <= node.max_version for node in self)

    def has_overlapping_majority(self, other: VoterSet) -> bool:
        """Say whether every majority of the one meets every majority of the other: at most one voter differs."""
        return len(self.keys - other.keys) <= 1 and len(other.keys - self.keys) <= 1
