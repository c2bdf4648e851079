"""A cluster is secured while it is in use, one broker after the other: `security_rolling_upgrade_test`, retold.

Listeners, the brokers' way to each other, and SASL mechanisms change under load, on brokers of ours and of both
softwares, under a quorum and under ZooKeeper. Minutes, so they are asked for (`-m slow`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic
from barnabas.admin import ScramMechanism, UserScramCredentialUpsertion
from barnabas.errors import KafkaError, TopicExistsError
from tests.contract.traffic import TOPIC, Traffic
from tests.contract.waiting import eventually
from tests.peers import apache_kafka, zookeeper
from tests.peers.apache_kafka import free_port
from tests.peers.mixed_cluster import MixedCluster
from tests.peers.secure_kafka import Certificates
from tests.peers.zookeeper import ZooKeeperCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("security-rolling-upgrade")]

SOON = {"reconnect.backoff.max.ms": 500, "retry.backoff.max.ms": 500}
_LOGIN = "org.apache.kafka.common.security"
_USERS = 'user_node="s3" user_alice="s3"'
_LOGINS = {
    "PLAIN": f'{_LOGIN}.plain.PlainLoginModule required username="node" password="s3" {_USERS};',
    "SCRAM-SHA-256": f'{_LOGIN}.scram.ScramLoginModule required username="node" password="s3";',
}
#: Of the listeners that have a login.
_SECURED = ("SECURED", "INTERNAL")


class Cluster:
    """Three brokers whose settings change one after the other; clients come by one of the listeners."""

    def __init__(self, cluster: MixedCluster | ZooKeeperCluster, certificates: Certificates) -> None:
        self._cluster = cluster
        self._authority = str(certificates.authority)
        self._ports = {number: {"PLAINTEXT": broker.port} for number, broker in cluster.brokers.items()}
        controllers = ",CONTROLLER:PLAINTEXT" if isinstance(cluster, MixedCluster) else ""
        secured = ",".join(f"{name}:SASL_SSL" for name in _SECURED)
        common = {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{secured}{controllers}",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._authority,
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
        }
        for listener in _SECURED:
            for mechanism, login in _LOGINS.items():
                common[f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"] = login
        for broker in cluster.brokers.values():
            broker.settings.update(common)

    def clients(self, listener: str, mechanism: str = "PLAIN") -> dict[str, Any]:
        """The settings of clients that come by a listener."""
        servers = {"bootstrap.servers": ",".join(f"localhost:{ports[listener]}" for ports in self._ports.values())}
        if listener not in _SECURED:
            return {**servers, **SOON}
        return {
            **servers,
            **SOON,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": "s3",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._authority,
        }

    @contextmanager
    def traffic(self, settings: dict[str, Any]) -> Iterator[Traffic]:
        """Records on their way as long as the block lasts; none is lost, doubled or out of order."""
        with AdminClient(settings) as admin:
            eventually(lambda: _is_made(admin), 60)
            eventually(lambda: _is_whole(admin))
            with Traffic(settings, **{"group.id": f"{settings['bootstrap.servers']}"}) as traffic:
                yield traffic
                traffic.wait_until_read(traffic.sent + 20)
            admin.delete_topics([TOPIC])

    def open(self, listener: str, by: dict[str, Any]) -> None:
        """Let every broker listen on a port more; `by` are the settings of clients that see how far it is."""
        for ports in self._ports.values():
            ports[listener] = free_port()
        self._roll(by, {})

    def close(self, listener: str, by: dict[str, Any]) -> None:
        """Close a port of every broker."""
        for ports in self._ports.values():
            del ports[listener]
        self._roll(by, {})

    def roll(self, by: dict[str, Any], **settings: str) -> None:
        """Change settings of every broker."""
        self._roll(by, {name.replace("_", "."): value for name, value in settings.items()})

    def _roll(self, by: dict[str, Any], settings: dict[str, str]) -> None:
        for number, broker in self._cluster.brokers.items():
            ports = self._ports[number]
            broker.stop()
            broker.settings.update(settings)
            broker.settings["listeners"] = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())
            broker.port = next(iter(ports.values()))
            broker.start()
            with AdminClient(by) as admin:
                eventually(lambda: _is_whole(admin), 90)


def _is_made(admin: AdminClient) -> bool:
    """Make the topic, unless the one of that name before is still being deleted."""
    try:
        admin.create_topics([NewTopic(TOPIC, 3, 3, configs={"min.insync.replicas": "2"})])
    except TopicExistsError:
        return False
    return True


def _is_whole(admin: AdminClient) -> bool:
    try:
        return all(len(part.in_sync_replicas) == 3 for part in admin.describe_topics([TOPIC])[TOPIC].partitions)
    except KafkaError:
        return False


CLUSTERS: dict[str, Callable[[], MixedCluster | ZooKeeperCluster]] = {
    "quorum": lambda: MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1),
    "zookeeper": lambda: ZooKeeperCluster(0, 3),
    "mixed-quorum": lambda: MixedCluster(theirs=1, ours=2, controllers=1),
    "mixed-zookeeper": lambda: ZooKeeperCluster(1, 2),
}


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = zookeeper.why_not() if "zookeeper" in request.param else None
    missing = missing or (apache_kafka.why_not() if "mixed" in request.param else None)
    if missing:
        pytest.skip(missing)
    nodes = CLUSTERS[request.param]()
    found = Cluster(nodes, Certificates.make(tmp_path_factory.mktemp("certificates")))
    with nodes:
        yield found


def test_a_secured_port_is_opened_brokers_go_over_to_it_and_it_is_the_only_one_then(cluster: Cluster) -> None:
    plain = cluster.clients("PLAINTEXT")
    with cluster.traffic(plain):
        cluster.open("SECURED", plain)
    secured = cluster.clients("SECURED")
    with cluster.traffic(secured):
        cluster.roll(secured, inter_broker_listener_name="SECURED")
        cluster.close("PLAINTEXT", secured)
    for server in plain["bootstrap.servers"].split(","):
        host, _, port = server.partition(":")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((host, int(port)), 5)


def test_brokers_get_a_listener_of_their_own_and_give_it_up_again(cluster: Cluster) -> None:
    plain = cluster.clients("PLAINTEXT")
    with cluster.traffic(plain):
        cluster.open("INTERNAL", plain)
        cluster.roll(plain, inter_broker_listener_name="INTERNAL")
        # As in Apache Kafka it stays open until no broker goes that way.
        cluster.roll(plain, inter_broker_listener_name="PLAINTEXT")
        cluster.close("INTERNAL", plain)


def test_a_mechanism_is_added_and_takes_the_place_of_another_one(cluster: Cluster) -> None:
    plain = cluster.clients("PLAINTEXT")
    with cluster.traffic(plain):
        cluster.open("SECURED", plain)
    old, new = cluster.clients("SECURED"), cluster.clients("SECURED", "SCRAM-SHA-256")
    with AdminClient(old) as admin:
        users = [UserScramCredentialUpsertion(name, "s3", ScramMechanism.SCRAM_SHA_256) for name in ("node", "alice")]
        admin.alter_user_scram_credentials(users)
    with cluster.traffic(old):
        cluster.roll(old, sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256", inter_broker_listener_name="SECURED")
    with cluster.traffic(new):
        cluster.roll(new, sasl_mechanism_inter_broker_protocol="SCRAM-SHA-256")
        cluster.roll(new, sasl_enabled_mechanisms="SCRAM-SHA-256")
    with AdminClient({**old, "default.api.timeout.ms": 10_000}) as admin, pytest.raises(KafkaError, match="PLAIN"):
        admin.list_topics()
