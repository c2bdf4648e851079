"""A real ZooKeeper with TLS and logins, and a broker of ours whose znodes belong to it.

Who may do what is asked of the server itself, with kazoo as a client that has logged in and as one that has not.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from barnabas import AdminClient, Consumer, Producer
from barnabas.admin import AclBinding, AclBindingFilter, AclOperation, PatternType, ResourceType
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.client.admin.topics import NewTopic
from barnabas.protocol.kinds import ConfigResourceType
from tests.contract.mixed_world import SOON
from tests.contract.waiting import eventually
from tests.peers import zookeeper
from tests.peers.mixed_cluster import BarnabasBroker
from tests.peers.secure_kafka import Certificates
from tests.peers.zookeeper import ZooKeeper, ZooKeeperCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

_CHROOT = "/secured"
_LOGIN = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="s3";'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[ZooKeeper]:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    with ZooKeeper(certificates, {"kafka": "s3"}) as running:
        yield running


def a_broker(server: ZooKeeper, certificates: Certificates, **settings: str) -> BarnabasBroker:
    broker = BarnabasBroker()
    broker.settings |= {
        "broker.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port}",
        "inter.broker.protocol.version": "3.9",
        "zookeeper.connect": f"localhost:{server.secure_port}{_CHROOT}",
        "zookeeper.connection.timeout.ms": "8000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(certificates.authority),
        "zookeeper.sasl.jaas.config": _LOGIN,
        "zookeeper.set.acl": "true",
        "offsets.topic.replication.factor": "1",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    return broker


@pytest.fixture(scope="module")
def broker(server: ZooKeeper, certificates: Certificates) -> Iterator[BarnabasBroker]:
    found = a_broker(server, certificates).start()
    yield found
    found.stop(kill=True)
    shutil.rmtree(found.folder, ignore_errors=True)


def test_a_broker_that_logs_in_by_tls_serves_and_owns_what_it_writes(server: ZooKeeper, broker: BarnabasBroker) -> None:
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoAuthError

    settings = {"bootstrap.servers": broker.bootstrap_servers, **SOON}
    with AdminClient(settings) as admin:
        admin.create_topics([NewTopic("flights", num_partitions=2, replication_factor=1)])
        mine = ConfigResource(ConfigResourceType.BROKER, "1")
        admin.incremental_alter_configs({mine: [AlterConfigOp("log.flush.interval.messages", "77")]})
    with Producer(settings) as producer:
        producer.send("flights", b"x").result(30)
    with Consumer("flights", {**settings, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        assert next(iter(consumer)).value == b"x"

    stranger = KazooClient(f"127.0.0.1:{server.port}")
    stranger.start(30)
    try:
        assert b"topic_id" in stranger.get(f"{_CHROOT}/brokers/topics/flights")[0]
        assert stranger.get(f"{_CHROOT}/brokers/topics/flights/partitions/0/state")[0]
        for path in ("/brokers/topics/flights", "/controller_epoch", "/brokers/ids/1"):
            with pytest.raises(NoAuthError):
                stranger.set(f"{_CHROOT}{path}", b"")
        with pytest.raises(NoAuthError):
            stranger.get(f"{_CHROOT}/config/brokers/1")
        stranger.create(f"{_CHROOT}/consumers/old", b"")
        owners = {
            (str(one.id.scheme), str(one.id.id), one.perms) for one in stranger.get_acls(f"{_CHROOT}/controller")[0]
        }
        assert owners == {("sasl", "kafka", 31), ("world", "anyone", 1)}
    finally:
        stranger.stop()
        stranger.close()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"zookeeper_sasl_jaas_config": _LOGIN.replace("s3", "wrong")}, "login"),
        ({"zookeeper_ssl_truststore_location": ""}, "certificate verify failed"),
    ],
)
def test_a_broker_that_is_not_let_in_ends_and_says_why(
    server: ZooKeeper, certificates: Certificates, settings: dict[str, str], says: str
) -> None:
    found = a_broker(server, certificates, **settings)
    if not settings.get("zookeeper_ssl_truststore_location", "x"):
        del found.settings["zookeeper.ssl.truststore.location"]
    try:
        with pytest.raises(Exception, match="barnabas"):
            found.start()
        assert says in found.log
    finally:
        found.stop(kill=True)
        shutil.rmtree(found.folder, ignore_errors=True)


def test_acls_that_brokers_of_either_kind_write_are_known_to_the_other() -> None:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "default.replication.factor": "1",
    }
    literal = AclBinding(ResourceType.TOPIC, "flights", "User:alice", AclOperation.DESCRIBE_CONFIGS)
    prefixed = AclBinding(
        ResourceType.GROUP, "gr", "User:bob", AclOperation.READ, pattern_type=PatternType.PREFIXED, host="10.0.0.1"
    )
    with ZooKeeperCluster(1, 1, settings) as cluster:
        theirs, ours = (
            AdminClient({"bootstrap.servers": cluster.brokers[number].bootstrap_servers, **SOON}) for number in (1, 2)
        )
        with theirs, ours:
            for writer, reader in ((theirs, ours), (ours, theirs)):
                writer.create_acls([literal, prefixed])
                eventually(lambda: set(reader.describe_acls()) == {literal, prefixed})  # noqa: B023
                assert set(writer.describe_acls()) == {literal, prefixed}
                writer.delete_acls([AclBindingFilter(resource_type=ResourceType.GROUP)])
                eventually(lambda: set(reader.describe_acls()) == {literal})  # noqa: B023
                reader.delete_acls([AclBindingFilter()])
                eventually(lambda: not writer.describe_acls())  # noqa: B023
