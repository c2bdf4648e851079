"""The numbers of the quorum's log under the names of Kafka's `kafka.server:type=raft-metrics` (KafkaRaftMetrics).

`poll-idle-ratio-avg` is not among them: no thread is the quorum's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric

from barnabas.broker.log.checkpoint_files import encode_uuid
from barnabas.broker.metadata.partition_registration import NO_LEADER
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.protocol.kafka_uuid import ZERO_UUID

if TYPE_CHECKING:
    from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient
    from barnabas.broker.raft.quorum_state import QuorumState
    from barnabas.broker.raft.replica_key import ReplicaKey

_NAME = "kafka_server_raft_metrics_"


def raft_metrics(raft: KafkaRaftClient, now: float) -> Iterator[Metric]:
    """Return the numbers as they are now."""
    for name, what, value in (*_of_quorum(raft), *_of_log(raft, now), *_of_voters(raft, now)):
        yield GaugeMetricFamily(_NAME + name, what, value)
    quorum = raft.replica.quorum
    voted = _voted(quorum)
    texts = (
        ("current_state", "State in the quorum", "state", quorum.state.name.lower()),
        (
            "current_vote_directory_id",
            "The directory of who got this node's vote",
            "directory",
            encode_uuid(ZERO_UUID if voted is None else voted.directory_id),
        ),
    )
    for name, what, label, text in texts:
        family = GaugeMetricFamily(_NAME + name, what, labels=(label,))
        family.add_metric((text,), 1)
        yield family


def _voted(quorum: QuorumState) -> ReplicaKey | None:
    """Return who got this node's vote in this epoch; a leader or candidate has voted for itself."""
    state = quorum.state
    return quorum.local if isinstance(state, LeaderState) else state.voted_key


def _of_quorum(raft: KafkaRaftClient) -> Iterator[tuple[str, str, float]]:
    quorum, elections = raft.replica.quorum, raft.replica.elections
    leader, voted = raft.leader_and_epoch.leader_id, _voted(quorum)
    yield "current_leader", "The leader's id; -1: none is known", NO_LEADER if leader is None else leader
    yield "current_vote", "Who got this node's vote; -1: none", -1 if voted is None else voted.id
    yield "current_epoch", "The epoch of the quorum", quorum.epoch
    yield "election_latency_avg", "Milliseconds that an election took, on average", elections.average * 1000
    yield "election_latency_max", "Milliseconds of the longest", elections.longest * 1000


def _of_log(raft: KafkaRaftClient, now: float) -> Iterator[tuple[str, str, float]]:
    log, counts, high_watermark = raft.replica.log, raft.replica.counts, raft.high_watermark
    yield "high_watermark", "What is committed; -1: unknown", -1 if high_watermark is None else high_watermark
    yield "log_end_offset", "The end of this node's log", log.end_offset
    yield "log_end_epoch", "The epoch of the last record", log.last_fetched_epoch
    yield "append_records_rate", "Records a second that this leader appends", counts.appended.per_second(now)
    yield "fetch_records_rate", "Records a second that this node fetches", counts.fetched.per_second(now)
    yield (
        "commit_latency_avg",
        "Milliseconds from append to commit by the record, on average",
        counts.commits.average(now) * 1000,
    )
    yield "commit_latency_max", "Milliseconds of the longest", counts.commits.largest(now) * 1000


def _of_voters(raft: KafkaRaftClient, now: float) -> Iterator[tuple[str, str, float]]:
    replica = raft.replica
    state, partition = replica.quorum.state, replica.partition_state
    voters, entry = partition.last_voter_set, partition.last_voter_set_entry
    name = replica.config.listener_name
    yield "number_of_voters", "Voters of the quorum", len(voters)
    unknown = sum(voters.address(voter, name) is None for voter in voters.ids)
    yield "number_unknown_voter_connections", "Voters that nothing says how to reach", unknown
    if isinstance(state, LeaderState):
        yield "number_of_observers", "Nodes that fetch and do not vote", len(state.current_observers(now))
        is_open = entry is not None and entry.offset >= (state.high_watermark or 0)
        yield "uncommitted_voter_change", "Whether a change of the voters is not committed yet", is_open
