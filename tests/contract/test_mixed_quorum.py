"""Voters of two softwares in one quorum: two of Apache Kafka's and one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka, free_port, run_tool
from tests.support.raft_voter import RaftVoter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(apache_kafka.why_not() is not None, reason="needs Apache Kafka"),
    pytest.mark.timeout(300),
]

_CLUSTER_ID = "YmFybmFiYXMtcGVlci0wMQ"
_OURS = 3
_TIMES = {"controller.quorum.election.timeout.ms": "500", "controller.quorum.fetch.timeout.ms": "1000"}


class _Quorum:
    """Nodes 1 and 2 are Apache Kafka's brokers and controllers, 3 is a voter of ours."""

    def __init__(self, folder: Path) -> None:
        self.theirs = {number: ApacheKafka(heap="256m") for number in (1, 2)}
        ports = {number: node.controller_port for number, node in self.theirs.items()} | {_OURS: free_port()}
        self.folder = folder
        # It has no controller, without which Apache Kafka's brokers do not start: it is the last to stand for election.
        self.ours = RaftVoter(_OURS, ports, _CLUSTER_ID, str(folder), election_timeout=20.0, fetch_timeout=20.0)
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in ports.items())
        for number, node in self.theirs.items():
            own = {"node.id": str(number), "controller.quorum.voters": voters}
            node.settings.update({**_TIMES, **own, "offsets.topic.replication.factor": "1"})


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[_Quorum]:
    found = _Quorum(tmp_path)
    try:
        with found.ours:
            for node in found.theirs.values():
                node.launch()
            for node in found.theirs.values():
                node.wait_until_open()
            yield found
    finally:
        for node in found.theirs.values():
            node.stop(kill=True)


def _has_leader(client: KafkaRaftClient) -> bool:
    return client.leader_and_epoch.leader_id is not None and (client.high_watermark or 0) > 0


def _create_topic(servers: str, name: str) -> None:
    arguments = ["--bootstrap-server", servers, "--create", "--topic", name, "--partitions", "3"]
    done = run_tool("org.apache.kafka.tools.TopicCommand", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_quorum_of_both_survives_the_loss_of_any_leader(quorum: _Quorum) -> None:
    ours = quorum.ours
    ours.wait_for(_has_leader, 60)
    _create_topic(quorum.theirs[1].bootstrap_servers, "first")
    end = ours.client.high_watermark or 0
    leader = ours.client.leader_and_epoch.leader_id
    epoch = ours.client.leader_and_epoch.epoch
    if leader == _OURS:
        ours.call(lambda client: client.resign(epoch))
        ours.wait_for(lambda client: client.leader_and_epoch.leader_id in (1, 2))
        leader = ours.client.leader_and_epoch.leader_id
        epoch = ours.client.leader_and_epoch.epoch
    assert leader in quorum.theirs
    quorum.theirs[leader].stop(kill=True)
    # With one of theirs gone our vote, our fetches or our leadership are needed for everything.
    ours.wait_for(lambda client: client.leader_and_epoch.epoch > epoch and _has_leader(client), 60)
    ours.wait_for(lambda client: (client.high_watermark or 0) > end, 60)
    assert ours.driver is not None
    assert ours.driver.problem is None


def test_their_tool_reads_our_log(quorum: _Quorum) -> None:
    ours = quorum.ours
    ours.wait_for(_has_leader, 60)
    _create_topic(quorum.theirs[1].bootstrap_servers, "seen-by-all")
    end = ours.client.high_watermark or 0
    ours.wait_for(lambda client: client.log_end_offset >= end)
    ours.stop()
    files = quorum.folder / "__cluster_metadata-0" / "00000000000000000000.log"
    options = ["--cluster-metadata-decoder", "--files", str(files)]
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", *options, timeout=100)
    assert dumped.returncode == 0, dumped.stderr
    assert '"name":"seen-by-all"' in dumped.stdout
    assert "LeaderChange" in dumped.stdout
