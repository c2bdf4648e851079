"""What a voter must remember of elections, in the JSON of Kafka's `quorum-state` file (FileQuorumStateStore)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.log.checkpoint_files import decode_uuid, encode_uuid
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.errors import KafkaStorageError
from barnabas.protocol.message import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.log.truncation import Steps

_NONE = -1


class ElectionState(NamedTuple):
    """The epoch, who leads in it, and whom this node voted for in it."""

    epoch: int
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None


class QuorumStateStore(Protocol):
    """The file `quorum-state`."""

    def read(self) -> bytes | None:
        """Return what was written last, None where there is nothing. Raises `KafkaStorageError`."""

    def write(self, content: bytes) -> Steps[None]:
        """Replace the content on the disk, all or nothing, beside the loop. Raises `KafkaStorageError`."""


def encode_election_state(election: ElectionState, voters: Sequence[int], kraft_version: int) -> bytes:
    """Return the file's content: data version 0 names the voters, 1 the directory of whom was voted for."""
    voted = election.voted_key
    leader = _NONE if election.leader_id is None else election.leader_id
    voted_id = _NONE if voted is None else voted.id
    if kraft_version == 0:
        found: dict[str, object] = {
            "clusterId": "",
            "leaderId": leader,
            "leaderEpoch": election.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voters],
            "data_version": 0,
        }
    else:
        found = {
            "leaderId": leader,
            "leaderEpoch": election.epoch,
            "votedId": voted_id,
            "votedDirectoryId": encode_uuid(ZERO_UUID if voted is None else voted.directory_id),
            "data_version": 1,
        }
    return json.dumps(found, separators=(",", ":")).encode()


def decode_election_state(content: bytes) -> ElectionState:
    """Read the file's content. Raises `KafkaStorageError` for what is none, and for another data version."""
    try:
        found = json.loads(content)
        version = found["data_version"]
        if version not in (0, 1):
            raise KafkaStorageError(f"the quorum-state file has the data version {version}; 0 and 1 are known")
        voted_id, leader_id = int(found["votedId"]), int(found["leaderId"])
        directory = decode_uuid(found["votedDirectoryId"]) if version else ZERO_UUID
        return ElectionState(
            int(found["leaderEpoch"]),
            None if leader_id < 0 else leader_id,
            None if voted_id < 0 else ReplicaKey(voted_id, directory),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise KafkaStorageError(
            f"the quorum-state file cannot be read ({error!r}): {content[:200]!r}. Without it this node could vote "
            "twice in an epoch; bring the file back from a copy, or format the node anew and let it rejoin"
        ) from error
