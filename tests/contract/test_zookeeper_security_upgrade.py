"""ZooKeeper is secured while its cluster is in use: `zookeeper_security_upgrade_test`, retold.

It learns a login, the brokers show it one after the other, Kafka's `ZkSecurityMigrator` gives them what they have
written, and from then on they own what they write; and all the way back. Minutes, so it is asked for (`-m slow`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic
from barnabas.admin import ConfigResource
from barnabas.errors import KafkaError
from tests.contract.traffic import TOPIC, Traffic
from tests.contract.waiting import eventually
from tests.peers import zookeeper
from tests.peers.apache_kafka import run_tool
from tests.peers.zookeeper import CHROOT, ZooKeeperCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("zookeeper-cluster")]

SOON = {"reconnect.backoff.max.ms": 500, "retry.backoff.max.ms": 500}
_KAFKAS = (f"/brokers/topics/{TOPIC}", f"/config/topics/{TOPIC}", "/controller_epoch", "/config/users")


@pytest.fixture(params=[0, 1], ids=["ours", "mixed"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ZooKeeperCluster]:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    # What ZooKeeper needs for a restart beside a load is less than that.
    with ZooKeeperCluster(request.param, 3 - request.param, {"zookeeper.session.timeout.ms": "18000"}) as running:
        yield running


def _is_whole(admin: AdminClient) -> bool:
    try:
        return all(len(part.in_sync_replicas) == 3 for part in admin.describe_topics([TOPIC])[TOPIC].partitions)
    except KafkaError:
        return False


def _roll(cluster: ZooKeeperCluster, admin: AdminClient, **settings: str) -> None:
    for broker in cluster.brokers.values():
        broker.stop()
        broker.settings.update({name.replace("_", "."): value for name, value in settings.items()})
        broker.start()
        eventually(lambda: _is_whole(admin), 90)


def _migrate(cluster: ZooKeeperCluster, system: dict[str, str], to: str) -> None:
    options = ("--zookeeper.acl", to, "--zookeeper.connect", f"{cluster.zookeeper.servers}{CHROOT}")
    jars = zookeeper.class_path()
    done = run_tool("kafka.admin.ZkSecurityMigrator", *options, timeout=120, class_path=jars, system=system)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]


@contextmanager
def _stranger(cluster: ZooKeeperCluster) -> Iterator[Any]:
    from kazoo.client import KazooClient

    client = KazooClient(cluster.zookeeper.servers)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _may_be_changed(cluster: ZooKeeperCluster, path: str) -> bool:
    """Whether somebody without a login could change a znode; it is not changed."""
    from kazoo.exceptions import BadVersionError, NoAuthError

    with _stranger(cluster) as client, pytest.raises((NoAuthError, BadVersionError)) as refusal:
        # ZooKeeper asks who it is before it looks at the version.
        client.set(f"{CHROOT}{path}", b"", 1_000_000)
    return refusal.type is BadVersionError


def _check_changes(admin: AdminClient, name: str) -> None:
    """Whatever controls the cluster can make, change and delete."""
    admin.create_topics([NewTopic(name, 2, 3)])
    eventually(lambda: name in admin.list_topics())
    admin.incremental_alter_configs({ConfigResource.topic(name): {"retention.ms": "86400000"}})
    admin.delete_topics([name])
    eventually(lambda: name not in admin.list_topics(), 60)


def test_znodes_get_owners_and_lose_them_again_under_load(cluster: ZooKeeperCluster) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, **SOON}
    with AdminClient(settings) as admin:
        admin.create_topics([NewTopic(TOPIC, 3, 3, configs={"min.insync.replicas": "2"})])
        eventually(lambda: _is_whole(admin))
        with Traffic(settings) as traffic:
            assert all(_may_be_changed(cluster, path) for path in _KAFKAS)
            system = cluster.log_in(("kafka", "s3"))
            cluster.zookeeper.stop()
            cluster.zookeeper.start()
            _roll(cluster, admin)
            _check_changes(admin, "logged-in")
            _migrate(cluster, system, "secure")
            assert not any(_may_be_changed(cluster, path) for path in _KAFKAS)
            _check_changes(admin, "migrated")
            _roll(cluster, admin, zookeeper_set_acl="true")
            _check_changes(admin, "owned")
            admin.create_topics([NewTopic("later", 2, 3)])
            assert not _may_be_changed(cluster, "/brokers/topics/later")
            eventually(lambda: not _may_be_changed(cluster, "/controller"))

            _roll(cluster, admin, zookeeper_set_acl="false")
            _migrate(cluster, system, "unsecure")
            assert all(_may_be_changed(cluster, path) for path in (*_KAFKAS, "/brokers/topics/later"))
            _check_changes(admin, "given-back")
            traffic.wait_until_read(traffic.sent + 20)
