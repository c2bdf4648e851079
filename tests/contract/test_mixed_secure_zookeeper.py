"""Brokers of both kinds under a ZooKeeper with logins: znodes that they own together, users, ACLs, tokens, secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    DelegationToken,
    NewTopic,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from barnabas.client.admin.configs import AlterConfigOp
from barnabas.errors import (
    GroupAuthorizationError,
    KafkaError,
    SaslAuthenticationError,
    TopicAuthorizationError,
)
from barnabas.protocol.kinds import ConfigResourceType
from tests.contract.mixed_world import SOON
from tests.contract.waiting import eventually
from tests.peers import zookeeper
from tests.peers.apache_kafka import free_port
from tests.peers.zookeeper import ZooKeeperCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

T = TypeVar("T")
_JAVA, _OURS = 1, 2
_MECHANISM = "SCRAM-SHA-256"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_SETTINGS = {
    "zookeeper.set.acl": "true",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": _MECHANISM,
    "listener.name.users.scram-sha-256.sasl.jaas.config": f"{_SCRAM};",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "the key of tokens",
    "password.encoder.secret": "the secret of secrets",
    "default.replication.factor": "2",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}


class Secured:
    """A broker of theirs and one of ours; each has a listener for users beside that for the super user."""

    def __init__(self) -> None:
        self.cluster = ZooKeeperCluster(1, 1, _SETTINGS, login=("kafka", "s3"))
        self.users: dict[int, str] = {}
        for number, broker in self.cluster.brokers.items():
            self.users[number] = f"127.0.0.1:{free_port()}"
            broker.settings["listeners"] += f",USERS://{self.users[number]}"
        ours = self.cluster.ours[_OURS]
        self.directories = [ours.folder / "data", ours.folder / "more"]
        ours.settings["log.dirs"] = ",".join(map(str, self.directories))

    def admin(self, number: int) -> AdminClient:
        """The super user, at one of the brokers."""
        return AdminClient({"bootstrap.servers": self.cluster.brokers[number].bootstrap_servers, **SOON})

    def user(self, number: int, name: str, password: str, options: str = "") -> dict[str, Any]:
        """The settings of a user at one of the brokers."""
        login = f'{_SCRAM} username="{name}" password="{password}"{options};'
        return {
            "bootstrap.servers": self.users[number],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": login,
            **SOON,
        }


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    found = Secured()
    with found.cluster:
        for number, name in ((_JAVA, "alice"), (_OURS, "bob")):
            with found.admin(number) as admin:
                admin.alter_user_scram_credentials(_credential(name))
        for number in found.users:
            for name in ("alice", "bob"):
                eventually(lambda number=number, name=name: _logs_in(found.user(number, name, f"{name}'s")), 30)  # type: ignore[misc]
        yield found


def _credential(name: str) -> list[Any]:
    return [UserScramCredentialUpsertion(name, f"{name}'s", ScramMechanism.SCRAM_SHA_256)]


def _logs_in(settings: dict[str, Any]) -> bool:
    try:
        with AdminClient(settings) as admin:
            admin.describe_cluster(timeout=10)
    except SaslAuthenticationError:
        return False
    return True


def test_brokers_of_both_kinds_share_znodes_that_no_stranger_may_change(secured: Secured) -> None:
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoAuthError

    for number in (_JAVA, _OURS):
        with secured.admin(number) as admin:
            admin.create_topics([NewTopic(f"made-at-{number}", 2, 2)])
            # Each writes what the other has made.
            for other in (_JAVA, _OURS):
                with secured.admin(other) as writer:
                    topic = ConfigResource(ConfigResourceType.TOPIC, f"made-at-{number}")
                    eventually(lambda: str(topic.name) in map(str, writer.list_topics()))  # noqa: B023
                    writer.incremental_alter_configs({topic: [AlterConfigOp("retention.ms", f"{other}000000")]})
    # Ours has several directories, and its logs lie in all of them.
    eventually(lambda: all(list(directory.glob("made-at-*")) for directory in secured.directories))
    chroot = zookeeper.CHROOT
    stranger = KazooClient(secured.cluster.zookeeper.servers)
    stranger.start(30)
    try:
        for number in (_JAVA, _OURS):
            paths = (f"/brokers/ids/{number}", f"/brokers/topics/made-at-{number}", f"/config/topics/made-at-{number}")
            for path in paths:
                with pytest.raises(NoAuthError):
                    stranger.set(f"{chroot}{path}", b"{}")
                owners = {(one.id.scheme, one.id.id) for one in stranger.get_acls(f"{chroot}{path}")[0]}
                assert owners == {("sasl", "kafka"), ("world", "anyone")}
        for path in ("/config/users/alice", "/config/users/bob", "/delegation_token/tokens"):
            with pytest.raises(NoAuthError):
                stranger.get(f"{chroot}{path}")
    finally:
        stranger.stop()
        stranger.close()


def _written(settings: dict[str, Any], topic: str) -> KafkaError | None:
    try:
        with Producer({**settings, "enable.idempotence": False}) as producer:
            producer.send(topic, b"x").result(30)
    except KafkaError as problem:
        return problem
    return None


def _read(settings: dict[str, Any], topic: str, group: str) -> KafkaError | None:
    try:
        with Consumer(topic, {**settings, "group.id": group, "auto.offset.reset": "earliest"}) as consumer:
            next(iter(consumer))
    except KafkaError as problem:
        return problem
    return None


@pytest.mark.parametrize(("writer", "user"), [(_JAVA, "alice"), (_OURS, "bob")])
def test_what_acls_deny_and_allow_a_user_holds_on_brokers_of_both_kinds(
    secured: Secured, writer: int, user: str
) -> None:
    topic, group = f"of-{user}", f"group-of-{user}"
    with secured.admin(writer) as admin:
        # A partition is led by each.
        admin.create_topics([NewTopic(topic, replica_assignments={0: [_JAVA, _OURS], 1: [_OURS, _JAVA]})])
        everywhere = {number: secured.user(number, user, f"{user}'s") for number in secured.users}
        for settings in everywhere.values():
            assert isinstance(_written(settings, topic), TopicAuthorizationError)
            assert isinstance(_read(settings, topic, group), TopicAuthorizationError | GroupAuthorizationError)
        allowed = [
            AclBinding(ResourceType.TOPIC, topic, f"User:{user}", AclOperation.WRITE),
            AclBinding(ResourceType.TOPIC, topic, f"User:{user}", AclOperation.READ),
            AclBinding(ResourceType.GROUP, group, f"User:{user}", AclOperation.READ),
        ]
        admin.create_acls(allowed)
        for settings in everywhere.values():
            eventually(lambda: _written(settings, topic) is None, 30)  # noqa: B023
            eventually(lambda: _read(settings, topic, group) is None, 30)  # noqa: B023
            for partition in (0, 1):
                with Producer(settings) as producer:
                    producer.send(topic, b"to each leader", partition=partition).result(30)
                with Consumer(settings) as consumer:
                    consumer.assign([TopicPartition(topic, partition)])
                    consumer.seek_to_beginning()
                    eventually(lambda: consumer.poll(timeout=1), 30)
        # What is denied counts more than what is allowed, and for the others nothing was allowed.
        denied = AclBinding(
            ResourceType.TOPIC, topic, f"User:{user}", AclOperation.WRITE, permission_type=AclPermissionType.DENY
        )
        admin.create_acls([denied])
        other = "bob" if user == "alice" else "alice"
        for number, settings in everywhere.items():
            eventually(lambda: isinstance(_written(settings, topic), TopicAuthorizationError), 30)  # noqa: B023
            stranger = secured.user(number, other, f"{other}'s")
            assert isinstance(_read(stranger, topic, group), TopicAuthorizationError | GroupAuthorizationError)


def _done_by(secured: Secured, number: int, user: str, act: Callable[[AdminClient], T], said: str) -> T:
    """Have a user do something until it was this broker that did it: a client asks any, and Java's tells in its log."""
    log = secured.cluster.theirs[_JAVA].folder / "kafka.log"
    for _ in range(40):
        before = log.read_text(encoding="utf-8", errors="replace").count(said)
        with AdminClient(secured.user(number, user, f"{user}'s")) as admin:
            result = act(admin)
        by_java = log.read_text(encoding="utf-8", errors="replace").count(said) > before
        if by_java == (number == _JAVA):
            return result
    raise AssertionError(f"broker {number} was never asked")


@pytest.mark.parametrize(("maker", "other"), [(_JAVA, _OURS), (_OURS, _JAVA)])
def test_a_token_that_one_kind_has_made_logs_in_and_is_changed_at_the_other(
    secured: Secured, maker: int, other: int
) -> None:
    def make(admin: AdminClient) -> DelegationToken:
        return admin.create_delegation_token(renewers=["User:bob"])

    token = _done_by(secured, maker, "alice", make, "Created a delegation token")
    of_token = [
        secured.user(number, token.token_id, token.hmac_as_base64_string, ' tokenauth="true"')
        for number in secured.users
    ]
    eventually(lambda: all(map(_logs_in, of_token)), 30)

    def renew(admin: AdminClient) -> int:
        return admin.renew_delegation_token(token.hmac, renew_period=3600)

    renewed = _done_by(secured, other, "bob", renew, "Delegation token renewed")

    def is_seen(number: int, user: str) -> bool:
        with AdminClient(secured.user(number, user, f"{user}'s")) as admin:
            found = {one.token_id: one for one in admin.describe_delegation_token()}[token.token_id]
        return (found.expiry_timestamp, found.max_timestamp) == (renewed, token.max_timestamp)

    # Whichever broker is asked knows it.
    eventually(lambda: all(is_seen(*one) for one in 3 * [(maker, "alice"), (other, "bob")]), 60)
    with AdminClient(secured.user(other, "alice", "alice's")) as admin:
        admin.expire_delegation_token(token.hmac)
    eventually(lambda: not any(map(_logs_in, of_token)), 30)


def test_ids_are_generated_for_brokers_of_both_kinds_and_stay_with_their_directories() -> None:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    cluster = ZooKeeperCluster(1, 1, {"default.replication.factor": "1"})
    for broker in cluster.brokers.values():
        broker.settings["broker.id"] = "-1"
    with cluster:

        def ids() -> dict[int, int]:
            with AdminClient({"bootstrap.servers": cluster.brokers[_OURS].bootstrap_servers, **SOON}) as admin:
                return {node.port: node.id for node in admin.describe_cluster().nodes}

        eventually(lambda: len(ids()) == 2, 30)
        first = ids()
        assert sorted(first.values()) == [1001, 1002]
        for broker in cluster.brokers.values():
            broker.stop()
            broker.start()
        eventually(lambda: ids() == first, 30)
        # What Java has written is taken over with its id.
        with cluster.replaced_by_ours(_JAVA):
            eventually(lambda: ids() == first, 30)


def test_a_secret_that_a_java_broker_has_written_is_read_by_ours_in_its_place_and_the_reverse(secured: Secured) -> None:
    name = f"listener.name.users.{_MECHANISM.lower()}.sasl.jaas.config"
    mine = ConfigResource(ConfigResourceType.BROKER, str(_JAVA))

    def change(option: str) -> None:
        with secured.admin(_JAVA) as admin:
            admin.incremental_alter_configs({mine: [AlterConfigOp(name, f'{_SCRAM} told="{option}";')]})

    def is_read() -> bool:
        """What cannot be read is no setting of the broker."""
        with secured.admin(_JAVA) as admin:
            found = admin.describe_configs([mine])[mine].get(name)
            return found is not None and found.is_sensitive

    java = secured.cluster.theirs[_JAVA]
    change("java")
    eventually(is_read, 30)
    with secured.cluster.replaced_by_ours(_JAVA) as ours:
        eventually(is_read, 30)
        assert "cannot be read" not in ours.log
        change("ours")
    java.start()
    eventually(is_read, 30)
    said = (java.folder / "kafka.log").read_text(encoding="utf-8", errors="replace")
    assert "could not be decoded" not in said
