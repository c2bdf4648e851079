"""Controllers that speak TLS, with a login by SASL or by certificates, to each other and to brokers."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import AdminClient
from tests.contract.test_mixed_secure_cluster import settings_of
from tests.contract.test_quorum_of_both import caught_up, logs_agree
from tests.contract.waiting import create_once, eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.mixed_cluster import BarnabasBroker, MixedCluster
from tests.peers.secure_kafka import Certificates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
]

_FEW = {"default.replication.factor": "1", "min.insync.replicas": "1", "offsets.topic.replication.factor": "1"}
_NEEDS_JAVA = pytest.mark.skipif(apache_kafka.why_not() is not None, reason="needs Apache Kafka")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


def _by_login(certificates: Certificates) -> dict[str, str]:
    return {**settings_of(certificates), **_FEW}


def _by_certificate(certificates: Certificates) -> dict[str, str]:
    """Controllers ask who comes for a certificate; its name is the one of a super user."""
    settings = _by_login(certificates)
    settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,BROKERS:SASL_SSL,CONTROLLER:SSL"
    settings["listener.name.controller.ssl.client.auth"] = "required"
    settings["listener.name.controller.ssl.principal.mapping.rules"] = "RULE:^.*$/node/"
    return settings


_USERS = ("--add-scram", "SCRAM-SHA-512=[name=node,password=s3]")


@pytest.mark.parametrize("settings_for", [_by_login, _by_certificate])
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(0, 3), pytest.param(1, 2, marks=_NEEDS_JAVA), pytest.param(2, 1, marks=_NEEDS_JAVA)],
)
def test_a_secured_quorum_goes_on_when_its_leaders_die(
    certificates: Certificates, settings_for: Any, theirs: int, ours: int
) -> None:
    settings = settings_for(certificates)
    cluster = MixedCluster(0, 1, theirs, settings, inner="BROKERS", our_controllers=ours, format_options=_USERS)
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        voters = set(cluster.controllers)
        led_by = set()
        for number in range(4):
            node: Any = cluster.controllers[admin.describe_metadata_quorum().leader_id]
            led_by.add(type(node))
            node.stop(kill=True)
            create_once(admin, f"topic-{number}", 2, 1)
            node.start()
            eventually(lambda: caught_up(admin, voters), 60)
        assert led_by <= {ApacheKafka, BarnabasBroker}
        assert {f"topic-{number}" for number in range(4)} <= set(admin.list_topics())
        for node in cluster.controllers.values():
            node.stop(kill=True)
        logs_agree(cluster)


def _with(node: BarnabasBroker, changes: dict[str, str]) -> None:
    """Start a controller anew with other settings."""
    node.stop()
    node.settings.update(changes)
    node.launch()


def test_a_controller_that_cannot_log_in_takes_no_part_and_says_why(certificates: Certificates) -> None:
    settings = _by_login(certificates)
    cluster = MixedCluster(0, 1, 0, settings, inner="BROKERS", our_controllers=3, format_options=_USERS)
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        leader = admin.describe_metadata_quorum().leader_id
        number, node = next((id, found) for id, found in cluster.controllers.items() if id != leader)
        assert isinstance(node, BarnabasBroker)
        right = node.settings["listener.name.controller.plain.sasl.jaas.config"]
        wrong = right.replace('password="s3"', 'password="wrong"')
        _with(node, {"listener.name.controller.plain.sasl.jaas.config": wrong})
        eventually(lambda: "uthentication" in node.log, 60)
        create_once(admin, "without-it", 2, 1)
        quorum = admin.describe_metadata_quorum()
        (lacking,) = [one for one in quorum.voters if one.replica_id == number]
        assert lacking.log_end_offset < quorum.high_watermark
        assert "wrong" not in node.log, "no password is told"
        _with(node, {"listener.name.controller.plain.sasl.jaas.config": right})
        eventually(lambda: caught_up(admin, set(cluster.controllers)), 60)


def test_a_controller_whose_certificate_is_not_trusted_takes_no_part(certificates: Certificates) -> None:
    settings = _by_certificate(certificates)
    cluster = MixedCluster(0, 1, 0, settings, inner="BROKERS", our_controllers=3, format_options=_USERS)
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        leader = admin.describe_metadata_quorum().leader_id
        number, node = next((id, found) for id, found in cluster.controllers.items() if id != leader)
        assert isinstance(node, BarnabasBroker)
        _with(node, {"ssl.keystore.location": str(certificates.stranger)})
        eventually(lambda: "certificate" in node.log.lower() or "tls" in node.log.lower(), 60)
        create_once(admin, "without-it", 2, 1)
        quorum = admin.describe_metadata_quorum()
        (lacking,) = [one for one in quorum.voters if one.replica_id == number]
        assert lacking.log_end_offset < quorum.high_watermark
        _with(node, {"ssl.keystore.location": settings["ssl.keystore.location"]})
        eventually(lambda: caught_up(admin, set(cluster.controllers)), 60)
