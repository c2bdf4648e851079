"""The file `quorum-state`, in both of Kafka's formats."""

import json

import pytest

from barnabas.broker.raft.election_state import ElectionState, decode_election_state, encode_election_state
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.errors import KafkaStorageError

#: As Apache Kafka 4.3.1 has written them.
_VERSION_0 = (
    b'{"clusterId":"","leaderId":102,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":101},{"voterId":102}],"data_version":0}'
)
_VERSION_1 = (
    b'{"leaderId":-1,"leaderEpoch":4,"votedId":102,"votedDirectoryId":"AQIDBAUGBwgJCgsMDQ4PEA","data_version":1}'
)
_DIRECTORY = bytes(range(1, 17))


def test_version_0_is_written_as_kafka_writes_it() -> None:
    assert encode_election_state(ElectionState(3, 102), [101, 102], kraft_version=0) == _VERSION_0


def test_version_1_is_written_as_kafka_writes_it() -> None:
    election = ElectionState(4, None, ReplicaKey(102, _DIRECTORY))
    assert encode_election_state(election, [101, 102], kraft_version=1) == _VERSION_1


def test_both_versions_are_read() -> None:
    assert decode_election_state(_VERSION_0) == ElectionState(3, 102, None)
    assert decode_election_state(_VERSION_1) == ElectionState(4, None, ReplicaKey(102, _DIRECTORY))


def test_what_a_torn_write_leaves_is_refused() -> None:
    for end in range(len(_VERSION_1)):
        with pytest.raises(KafkaStorageError, match="quorum-state"):
            decode_election_state(_VERSION_1[:end])


def test_another_version_is_refused() -> None:
    content = json.dumps(json.loads(_VERSION_1) | {"data_version": 2}).encode()
    with pytest.raises(KafkaStorageError, match="data version 2"):
        decode_election_state(content)
