"""Controllers of both softwares in one quorum, all of them processes: any of them may lead, and any may die."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient
from barnabas.client.admin.cluster import FeatureUpdate
from barnabas.errors import InvalidUpdateVersionError, KafkaTimeoutError
from barnabas.protocol.kinds import UpgradeType
from barnabas.records import read_batches
from tests.contract.waiting import create_once, eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka, run_tool
from tests.peers.mixed_cluster import CLUSTER_ID, BarnabasBroker, MixedCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(apache_kafka.why_not() is not None, reason="needs Apache Kafka"),
    pytest.mark.timeout(900),
]

#: Brokers of ours, two, so that three Java processes are the most that run.
_SETTINGS = {"default.replication.factor": "2", "min.insync.replicas": "1", "offsets.topic.replication.factor": "2"}
_MOST_ROUNDS = 8


def _log_of(folder: Path) -> list[tuple[int, int, bytes]]:
    """What a voter has on its disk: base offset, leader epoch and bytes of each batch."""
    found = []
    for segment in sorted((folder / "data" / "__cluster_metadata-0").glob("*.log")):
        data = segment.read_bytes()
        at = 0
        for batch in read_batches(data):
            end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            found.append((batch.base_offset, batch.partition_leader_epoch, data[at:end]))
            at = end
    return found


def caught_up(admin: AdminClient, voters: set[int]) -> bool:
    """Whether these voters, and no others, have what is committed."""
    quorum = admin.describe_metadata_quorum()
    return {one.replica_id for one in quorum.voters if one.log_end_offset >= quorum.high_watermark - 1} == voters


@pytest.mark.parametrize(("theirs", "ours"), [(2, 1), (1, 2)])
def test_the_quorum_goes_on_whoever_led_it_and_dies(theirs: int, ours: int) -> None:
    cluster = MixedCluster(theirs=0, ours=2, controllers=theirs, our_controllers=ours, settings=_SETTINGS)
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        voters, topics = set(cluster.controllers), []
        for number, kind in enumerate((ApacheKafka, BarnabasBroker, ApacheKafka)):
            _have_lead(cluster, admin, kind)
            node: Any = cluster.controllers[admin.describe_metadata_quorum().leader_id]
            assert isinstance(node, kind)
            node.stop(kill=True)
            create_once(admin, f"topic-{number}", 2, 2)
            topics.append(f"topic-{number}")
            node.start()
            eventually(lambda: caught_up(admin, voters), 120)
        assert set(topics) <= set(admin.list_topics())
        _kafkas_tools_agree(cluster, voters)
        for node in cluster.controllers.values():
            node.stop(kill=True)
        logs_agree(cluster)


@pytest.mark.parametrize(("theirs", "ours"), [(2, 1), (1, 2)])
@pytest.mark.parametrize("leader", [ApacheKafka, BarnabasBroker])
def test_kraft_version_1_whoever_leads_and_the_voters_change_from_then_on(theirs: int, ours: int, leader: type) -> None:
    cluster = MixedCluster(theirs=0, ours=2, controllers=theirs, our_controllers=ours, settings=_SETTINGS)
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        voters = set(cluster.controllers)
        _have_lead(cluster, admin, leader)
        eventually(lambda: _is_raised(admin), 60)
        directories = {one.replica_id: one.replica_directory_id for one in admin.describe_metadata_quorum().voters}
        assert set(directories) == voters
        assert len(set(directories.values())) == len(voters), "every voter has told its own directory"
        create_once(admin, "after", 2, 2)
        for node in cluster.controllers.values():
            node.stop(kill=True)
            node.start()
            eventually(lambda: caught_up(admin, voters), 60)
        gone = min(voters - {admin.describe_metadata_quorum().leader_id})
        eventually(lambda: _is_let_go(admin, gone, directories[gone]), 60)
        eventually(lambda: {one.replica_id for one in admin.describe_metadata_quorum().voters} == voters - {gone}, 60)
        create_once(admin, "with-two", 2, 2)
        for node in cluster.controllers.values():
            node.stop(kill=True)
        logs_agree(cluster)


def _is_let_go(admin: AdminClient, voter: int, directory: bytes) -> bool:
    try:
        admin.remove_raft_voter(voter, directory)
    except KafkaTimeoutError:  # one of Apache Kafka that was elected a moment ago has no high watermark yet
        return False
    return True


def _have_lead(cluster: MixedCluster, admin: AdminClient, wanted: type) -> None:
    """Kill the active controller so that one of a kind has the longest log, and is elected."""
    for number in range(_MOST_ROUNDS):
        nodes: dict[int, Any] = dict(cluster.controllers)
        node = nodes.pop(admin.describe_metadata_quorum().leader_id)
        if isinstance(node, wanted):
            return
        behind = [other for other in nodes.values() if not isinstance(other, wanted)]
        for other in behind:
            _signal(other, signal.SIGSTOP)
        create_once(admin, f"only-two-have-this-{wanted.__name__}-{number}", 1, 2)
        node.stop(kill=True)
        for other in behind:
            _signal(other, signal.SIGCONT)
        admin.describe_metadata_quorum(timeout=60)
        node.start()
        eventually(lambda: caught_up(admin, set(cluster.controllers)), 120)
    raise AssertionError(f"no {wanted.__name__} was elected in {_MOST_ROUNDS} rounds")


def _signal(node: ApacheKafka | BarnabasBroker, number: int) -> None:
    process = node._process
    assert process is not None
    os.kill(process.pid, number)


def _is_raised(admin: AdminClient) -> bool:
    """Whether `kraft.version` is 1 now; an active controller that was not told of all directories refuses."""
    try:
        admin.update_features({"kraft.version": FeatureUpdate(1, UpgradeType.UPGRADE)})
    except InvalidUpdateVersionError:
        return False
    return True


def _kafkas_tools_agree(cluster: MixedCluster, voters: set[int]) -> None:
    server = cluster.bootstrap_servers.partition(",")[0]
    status = run_tool(
        "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", server, "describe", "--status"
    ).stdout
    assert CLUSTER_ID in status
    assert all(f'"id": {voter}' in status for voter in voters)
    for controller in cluster.controllers.values():
        features = run_tool(
            "org.apache.kafka.tools.FeatureCommand",
            "--bootstrap-controller",
            f"localhost:{controller.port}",
            "describe",
        ).stdout
        assert "metadata.version" in features
    found = run_tool("org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", server).stdout
    assert CLUSTER_ID in found


def logs_agree(cluster: MixedCluster) -> None:
    """Check that the logs of all controllers are equal, byte for byte."""
    logs = [_log_of(node.folder) for node in cluster.controllers.values()]
    shortest = min(map(len, logs))
    assert shortest > 10
    assert all(log[:shortest] == logs[0][:shortest] for log in logs)
