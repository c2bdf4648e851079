"""Snapshots and logs of our controllers, read by Apache Kafka's: over the network, from a copied disk, by its shell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barnabas import AdminClient, NewTopic
from barnabas.admin import AclBinding, AclOperation, ConfigResource, ResourceType
from barnabas.client.admin.configs import AlterConfigOp
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka, run_tool, shell_classpath
from tests.peers.mixed_cluster import BarnabasBroker, MixedCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(apache_kafka.why_not() is not None, reason="needs Apache Kafka"),
    pytest.mark.timeout(400),
]

#: A snapshot after each few topics, and nothing before the newest but one is kept.
_SNAPSHOTS = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_SHELL = "org.apache.kafka.shell.MetadataShell"


def _log_folder(node: ApacheKafka | BarnabasBroker) -> Path:
    return node.folder / "data" / "__cluster_metadata-0"


def _checkpoints(node: ApacheKafka | BarnabasBroker) -> dict[str, bytes]:
    """Snapshots that are whole, but for the one of formatting."""
    found = sorted(_log_folder(node).glob("*.checkpoint"))
    return {path.name: path.read_bytes() for path in found if not path.name.startswith("0" * 20)}


def _first_offset(node: ApacheKafka | BarnabasBroker) -> int:
    """Where the oldest snapshot ends, and the log begins."""
    return min((int(name[:20]) for name in _checkpoints(node)), default=0)


def _answers(admin: AdminClient) -> bool:
    """Whether all controllers have what is committed."""
    quorum = admin.describe_metadata_quorum()
    running = [one for one in quorum.voters if one.log_end_offset >= quorum.high_watermark - 2]
    return len(running) >= 2


def _leads(admin: AdminClient, cluster: MixedCluster, wanted: ApacheKafka) -> bool:
    """Whether a controller leads; else the one that does is started anew."""
    leader = cluster.controllers[admin.describe_metadata_quorum().leader_id]
    if leader is not wanted:
        leader.stop(kill=True)
        eventually(lambda: cluster.controllers[admin.describe_metadata_quorum().leader_id] is not leader, 60)
        leader.start()
        eventually(lambda: _answers(admin), 60)
    return leader is wanted


def _fill(admin: AdminClient, first: int, count: int) -> set[str]:
    """Make topics, settings and ACLs, which a controller must know to change them."""
    names = [f"topic-{number:03d}" for number in range(first, first + count)]
    for name in names:
        admin.create_topics([NewTopic(name, 3, 1, configs={"retention.ms": "77000"})], timeout=60)
    acls = [AclBinding(ResourceType.TOPIC, name, "User:alice", AclOperation.READ) for name in names]
    admin.create_acls(acls)
    return set(names)


def _is_known(admin: AdminClient, names: set[str]) -> bool:
    return names <= set(admin.list_topics())


def _is_changed(admin: AdminClient, name: str) -> None:
    """Have the active controller change what it knows of a topic."""
    resource = ConfigResource.topic(name)
    (entries,) = admin.describe_configs([resource]).values()
    assert entries["retention.ms"].value == "77000"
    admin.incremental_alter_configs({resource: [AlterConfigOp("retention.ms", "88000")]})
    admin.create_partitions({name: 4})
    admin.delete_topics([name])
    eventually(lambda: name not in admin.list_topics())


def test_a_controller_of_theirs_that_is_far_behind_fetches_our_snapshot_and_leads() -> None:
    cluster = MixedCluster(theirs=0, ours=1, controllers=1, our_controllers=2, settings=_SNAPSHOTS)
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        (java,) = (node for node in cluster.controllers.values() if isinstance(node, ApacheKafka))
        ours = [node for node in cluster.controllers.values() if isinstance(node, BarnabasBroker)]
        names = _fill(admin, 0, 3)
        java.stop(kill=True)
        end = admin.describe_metadata_quorum().high_watermark
        names |= _fill(admin, 3, 20)
        eventually(lambda: all(len(_checkpoints(node)) > 1 for node in ours), 60)
        for node in ours:
            # A controller looks what it may drop when it starts, and each minute.
            node.stop(kill=True)
            node.start()
            eventually(lambda: _answers(admin), 60)
            names |= _fill(admin, 100 + ours.index(node), 1)
        eventually(lambda: all(_first_offset(node) > end for node in ours), 90)
        java.start()
        eventually(lambda: bool(_checkpoints(java)), 60)
        theirs = _checkpoints(java)
        assert any(theirs.get(name) == data for node in ours for name, data in _checkpoints(node).items())
        eventually(lambda: _leads(admin, cluster, java), 120)
        assert _is_known(admin, names)
        _is_changed(admin, "topic-000")
        _is_changed(admin, "topic-022")


def test_their_controller_goes_on_with_a_directory_of_ours_and_ours_with_theirs() -> None:
    cluster = MixedCluster(theirs=0, ours=1, controllers=0, our_controllers=1, settings=_SNAPSHOTS)
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        (ours,) = cluster.controllers.values()
        assert isinstance(ours, BarnabasBroker)
        names = _fill(admin, 0, 12)
        eventually(lambda: bool(_checkpoints(ours)), 60)
        names |= _fill(admin, 12, 2)
        ours.stop()
        java = ApacheKafka(heap="192m", format_options=["--ignore-formatted"])
        try:
            java.controller_port = java.port = ours.port
            java.settings.update({**ours.settings, "log.dirs": str(java.folder / "data")})
            shutil.copytree(ours.data, java.folder / "data")
            java.start()
            eventually(lambda: _is_known(admin, names), 60)
            _is_changed(admin, "topic-001")
            _is_changed(admin, "topic-013")
            names = (names | _fill(admin, 20, 8)) - {"topic-001", "topic-013"}
            assert len(admin.describe_acls()) >= 22
            java.stop()
            shutil.rmtree(ours.data)
            shutil.copytree(java.folder / "data", ours.data)
            ours.start()
            eventually(lambda: _is_known(admin, names), 60)
            _is_changed(admin, "topic-002")
            _is_changed(admin, "topic-027")
        finally:
            java.stop(kill=True)
            shutil.rmtree(java.folder, ignore_errors=True)


def test_their_shell_shows_what_is_in_our_snapshot(tmp_path: Path) -> None:
    cluster = MixedCluster(theirs=0, ours=1, controllers=0, our_controllers=1, settings=_SNAPSHOTS)
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        (ours,) = cluster.controllers.values()
        _fill(admin, 0, 12)
        eventually(lambda: len(_checkpoints(ours)) > 1, 60)
        name, data = max(_checkpoints(ours).items())
        (tmp_path / name).write_bytes(data)
    snapshot = ["--snapshot", str(tmp_path / name)]

    def shows(text: str, *command: str) -> bool:
        """Whether the shell says so, which runs its command at times before it has read all of the snapshot."""
        done = run_tool(_SHELL, *snapshot, *command, class_path=shell_classpath())
        return text in done.stdout.split() or text in done.stdout

    for text, *command in (
        ("topic-000", "ls", "/image/topics/byName"),
        ("replicas=[1]", "cat", "/image/topics/byName/topic-000/2"),
        ("77000", "cat", "/image/configs/TOPIC:topic-000/retention.ms"),
        ("4.3-IV0", "cat", "/image/features/metadataVersion"),
        ("finalized_transaction.version", "ls", "/image/features"),
        ("1", "ls", "/image/cluster/brokers"),
        ("principal=User:alice", "tree", "/image/acls"),
    ):
        eventually(lambda text=text, command=command: shows(text, *command), 60)  # type: ignore[misc]
