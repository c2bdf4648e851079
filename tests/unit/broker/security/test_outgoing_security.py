"""How this broker shows other nodes who it is: by the settings of the listener that it connects to."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig, PeerListener
from barnabas.broker.network.node_channel import NodeChannel, home_here
from barnabas.broker.network.socket_server import SocketServer
from barnabas.broker.security.outgoing_security import OutgoingSecurity, client_settings
from barnabas.broker.security.scram_users import ScramUsers
from barnabas.config.config_def import definitions
from barnabas.config.support import SUPPORTED
from barnabas.errors import ConfigError
from barnabas.network.node import Node
from barnabas.network.security import scram
from barnabas.protocol.message import Message
from barnabas.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.peers.secure_kafka import Certificates
from tests.support.core_broker import CoreBroker, create

JAAS = 'org.apache.kafka.common.security.{}LoginModule required username="{}" password="{}" user_{}="{}";'
PLAIN, SCRAM = "listener.name.inner.plain.sasl.jaas.config", "listener.name.inner.scram-sha-512.sasl.jaas.config"
MEMBER = {"process.roles": "broker", "node.id": 3, "controller.quorum.bootstrap.servers": "controller:9000"}
#: Whoever is no broker is asked whether it may describe the topic.
TOPIC_DENIED = 29


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


def jaas(user: str, password: str, module: str = "plain.Plain") -> str:
    return JAAS.format(module, user, password, user, password)


def config_of(protocol: str = "SASL_PLAINTEXT", mechanism: str = "PLAIN", **more: Any) -> BrokerConfig:
    settings = {
        **MEMBER,
        "listeners": "INNER://localhost:0,PLAINTEXT://localhost:0",
        "listener.security.protocol.map": f"INNER:{protocol},PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": jaas("of-controllers", "its"),
        PLAIN: jaas("three", "secret"),
    }
    return BrokerConfig({**settings, **{name.replace("__", "."): value for name, value in more.items()}})


def first_words(config: BrokerConfig, listener: PeerListener) -> bytes:
    found = OutgoingSecurity(config, listener, pytest.fail)
    assert found._builder._new_sasl_client is not None
    said = found._builder._new_sasl_client().initial_response()
    assert isinstance(said, bytes)
    return said


class TestSettings:
    def test_a_mechanisms_user_is_that_of_the_listener(self) -> None:
        config = config_of()
        assert config.of_brokers == PeerListener("INNER", "SASL_PLAINTEXT", "PLAIN")
        assert first_words(config, config.of_brokers) == b"\0three\0secret"

    def test_controllers_have_a_listener_and_a_mechanism_of_their_own(self) -> None:
        scrams = {SCRAM: jaas("three", "secret", "scram.Scram")}
        config = config_of(mechanism="SCRAM-SHA-512", **scrams)
        assert config.of_controllers == PeerListener("CONTROLLER", "SASL_PLAINTEXT", "PLAIN")
        assert first_words(config, config.of_brokers).startswith(b"n,,n=three,r=")
        assert first_words(config, config.of_controllers) == b"\0of-controllers\0its"

    def test_all_that_a_client_can_be_told_about_tls_and_sasl_reaches_it(self) -> None:
        ours = definitions("admin").keys
        wanted = sorted(
            name for name in SUPPORTED["broker"] if name.startswith(("ssl.", "sasl.")) and name in ours
        )  # those of listeners alone are none of a client's
        values = {
            name: {"int": "17", "short": "17", "long": "17", "double": "0.6", "boolean": "true"}.get(
                ours[name].type, "x"
            )
            for name in wanted
        }
        values |= {"sasl.login.refresh.window.jitter": "0.2", "sasl.oauthbearer.assertion.algorithm": "ES256"}
        values |= {"ssl.enabled.protocols": "TLSv1.3", "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}
        for prefix in ("", "listener.name.inner."):
            found = client_settings(
                config_of("SASL_SSL", "OAUTHBEARER", **{prefix + name: value for name, value in values.items()}),
                PeerListener("INNER", "SASL_SSL", "OAUTHBEARER"),
            )
            for name, value in values.items():
                assert found[name] == ours[name].parse(value), f"{prefix}{name}"
                assert found[name] != ours[name].default, "another value than the default"

    def test_a_mechanism_that_no_client_of_ours_has_is_refused_at_the_start(self) -> None:
        with pytest.raises(ConfigError, match=r"sasl\.mechanism\.inter\.broker\.protocol=GSSAPI"):
            config_of(mechanism="GSSAPI")
        with pytest.raises(ConfigError, match=r"sasl\.mechanism\.controller\.protocol=WRONG"):
            config_of(sasl__mechanism__controller__protocol="wrong")

    def test_a_user_that_is_missing_is_told_with_the_listener(self) -> None:
        config = config_of(mechanism="SCRAM-SHA-256")
        with pytest.raises(ConfigError, match=r"listener INNER: .*=SCRAM-SHA-256 needs a user"):
            OutgoingSecurity(config, config.of_brokers, pytest.fail)

    def test_the_broker_itself_does_not_start_without_it(self) -> None:
        from barnabas.broker.membership.membership import Membership

        async def start() -> None:
            Membership(config_of(mechanism="SCRAM-SHA-256"), "/nowhere", None, pytest.fail)

        with pytest.raises(ConfigError, match="listener INNER"):
            asyncio.run(start())

    def test_certificates_that_were_replaced_hold_for_the_next_connection(
        self, certificates: Certificates, tmp_path: Path
    ) -> None:
        said: list[str] = []
        store = tmp_path / "trusted.pem"
        shutil.copy(certificates.authority, store)
        config = config_of("SSL", ssl__truststore__location=str(store), ssl__truststore__type="PEM")
        security = OutgoingSecurity(config, config.of_brokers, said.append)
        first = security._builder
        assert [socket_secured(security), security._builder] == [True, first]

        store.write_text("broken")
        assert [socket_secured(security), security._builder] == [True, first]
        assert len(said) == 1
        assert "goes on with the settings that it has" in said[0]

        shutil.copy(certificates.authority, store)
        assert socket_secured(security)
        assert security._builder is not first


def socket_secured(security: OutgoingSecurity) -> bool:
    ours, theirs = socket.socketpair()
    with theirs:
        layer = security.transport_layer(ours, "localhost", "localhost:1")
        assert layer is not None
        layer.close()
    return True


class AskOnce:
    """A requester that asks a leader for the end of an epoch, as followers do."""

    def __init__(self, port: int, host: str = "localhost") -> None:
        self.node = Node(7, host, port)
        self.answered: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        self.is_asked = False

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        if self.is_asked:
            return None
        self.is_asked = True
        part = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
        topics = [OffsetForLeaderTopic(topic="t", partitions=[part])]
        return self.node, OffsetForLeaderEpochRequest(replica_id=3, topics=topics)

    def receive(self, response: Message, now: Any) -> None:
        self.answered.set_result(response)

    def disconnected(self, now: float) -> None:
        if not self.answered.done():
            self.answered.set_result(None)

    def next_deadline(self) -> float:
        return float("inf")


class Secured:
    """A leader with TLS, SCRAM and ACLs, and a follower that connects to it through `NodeChannel`."""

    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        self.said: list[str] = []
        self.leader = CoreBroker(
            {
                "listeners": "PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:SASL_SSL",
                "listener.name.inner.sasl.enabled.mechanisms": "SCRAM-SHA-512",
                SCRAM: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
                "ssl.keystore.location": str(certificates.broker),
                "ssl.keystore.type": "PEM",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:three",
            }
        )
        users = ScramUsers(self.leader.node.metadata)
        for name in ("three", "guest"):
            salted = scram.salted_password("SCRAM-SHA-512", b"secret", b"salt", 4096)
            credential = scram.stored_credential("SCRAM-SHA-512", salted, b"salt", 4096)
            users.alter({(name, "SCRAM-SHA-512"): credential})
        self.leader.connect().request(create("t"), 7)

    async def ask(self, user: str, password: str, trusted: Path | None = None, host: str = "localhost") -> Any:
        """What the leader answers a follower that is this user; None where there is no connection."""
        server = SocketServer(self.leader.node.core)
        listening = socket.create_server(("127.0.0.1", 0))
        await server.listen("INNER", listening)
        own = {
            SCRAM: jaas(user, password, "scram.Scram"),
            "ssl.truststore.location": str(trusted or self.certificates.authority),
            "ssl.truststore.type": "PEM",
        }
        config = config_of("SASL_SSL", "SCRAM-SHA-512", **own)
        requester = AskOnce(listening.getsockname()[1], host)
        channel = NodeChannel(
            requester,
            "broker-3-fetcher",
            home_here(random.Random(1), OutgoingSecurity(config, config.of_brokers, self.said.append)),
            request_timeout=10.0,
            on_answer=lambda: None,
        )
        channel.start()
        try:
            return await asyncio.wait_for(requester.answered, 20)
        finally:
            channel.close()
            await server.close()


@pytest.fixture
def secured(certificates: Certificates) -> Iterator[Secured]:
    found = Secured(certificates)
    yield found
    found.leader.stop()


class TestConnections:
    def test_a_broker_that_the_cluster_knows_is_served_as_one(self, secured: Secured) -> None:
        answer = asyncio.run(secured.ask("three", "secret"))
        assert answer.topics[0].partitions[0].error_code == 0
        assert not secured.said

    def test_another_user_may_not_do_what_brokers_do(self, secured: Secured) -> None:
        answer = asyncio.run(secured.ask("guest", "secret"))
        assert answer.topics[0].partitions[0].error_code == TOPIC_DENIED

    def test_a_password_that_is_wrong_is_told_with_the_node(self, secured: Secured) -> None:
        assert asyncio.run(secured.ask("three", "wrong")) is None
        assert len(secured.said) == 1
        assert "node 7 at localhost:" in secured.said[0]
        assert "Authentication failed" in secured.said[0]

    def test_a_node_that_is_another_than_it_says_is_told(self, secured: Secured, tmp_path: Path) -> None:
        other = Certificates.make(tmp_path)
        assert asyncio.run(secured.ask("three", "secret", other.authority)) is None
        assert asyncio.run(secured.ask("three", "secret", host="127.0.0.1")) is None
        assert ["certificate" in line for line in secured.said] == [True, True]
