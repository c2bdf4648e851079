"""A broker that lets in who authenticates, and lets do what ACLs allow: its command line, and Kafka's own tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.cli import main as cli
from barnabas.errors import SaslAuthenticationError, TopicAuthorizationError
from tests.contract.waiting import eventually
from tests.peers.java_tools import JavaTools
from tests.peers.secure_kafka import Certificates
from tests.support.secured_broker import SecuredBroker, secured_broker

ADMIN = ("admin", "admin-secret")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {
        "listeners": "CLIENTS://localhost:0,CONTROLLER://:1",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN[0]}",
        "delegation.token.secret.key": "a secret of the tests",
    }
    user = f"SCRAM-SHA-512=[name={ADMIN[0]},password={ADMIN[1]}]"
    with secured_broker(tmp_path_factory.mktemp("secured"), settings, "--add-scram", user) as running:
        yield running


def client_of(broker: SecuredBroker, certificates: Certificates, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.servers["CLIENTS"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "ssl.truststore.location": str(certificates.authority),
    }


@pytest.fixture
def command(
    broker: SecuredBroker, certificates: Certificates, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Any:
    properties = tmp_path / "client.properties"
    settings = client_of(broker, certificates, *ADMIN)
    properties.write_text("\n".join(f"{name}={value}" for name, value in settings.items()))

    def run(*arguments: str, code: int = 0) -> Any:
        assert cli.main([*arguments, "--config", str(properties), "-o", "json"]) == code
        return json.loads(capsys.readouterr().out or "[]")

    return run


def test_users_and_acls_by_the_command_line(
    broker: SecuredBroker, certificates: Certificates, command: Any, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("alice-secret\n")
    command("user", "add", "alice", "--password-file", str(secret))
    assert {row["mechanism"] for row in command("user", "list", "alice")} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}

    alice = client_of(broker, certificates, "alice", "alice-secret")
    with AdminClient(client_of(broker, certificates, *ADMIN)) as admin:
        admin.create_topics([NewTopic("orders", 1, 1)])
    with Producer(alice) as producer, pytest.raises(TopicAuthorizationError):
        producer.send("orders", b"x").result(20)
    question = ("acl", "test", "--principal", "User:alice", "--operation", "write", "--topic", "orders")
    [answer] = command(*question, code=1)
    assert (answer["allowed"], answer["why"]) == (False, "no ACL fits the resource")

    command("acl", "add", "--principal", "User:alice", "--operation", "read", "--operation", "write", "--topic", "ord",
            "--prefixed")  # fmt: skip
    command("acl", "add", "--principal", "User:alice", "--operation", "read", "--group", "g")
    assert command(*question)[0]["why"] == "allow User:alice write on prefixed ord"
    with Producer(alice) as producer:
        producer.send("orders", b"x").result(20)
    seen: list[Any] = []
    with Consumer("orders", alice, group_id="g", auto_offset_reset="earliest") as consumer:
        eventually(lambda: seen.extend(record.value for record in consumer.poll(0.5)) or bool(seen))
    assert seen == [b"x"]
    eventually(lambda: "Principal = User:alice is denied operation = DESCRIBE" in broker.log)

    assert len(command("acl", "list", "--principal", "User:alice")) == 3
    assert len(command("acl", "remove", "--principal", "User:alice")) == 3
    command("user", "delete", "alice")
    with pytest.raises(SaslAuthenticationError), AdminClient({**alice, "default.api.timeout.ms": 20_000}) as admin:
        admin.describe_cluster()
    assert "secret" not in broker.log


def test_tokens_by_the_command_line(
    broker: SecuredBroker,
    certificates: Certificates,
    command: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = command("token", "create", "--lifetime", "1h", "--renewer", "User:scheduler")
    [listed] = command("token", "list")
    assert listed == {name: made[name] for name in listed}
    assert (listed["owner"], listed["renewers"]) == ("User:admin", ["User:scheduler"])
    assert made["secret"] not in str(listed)

    bearer = client_of(broker, certificates, "", "")
    del bearer["sasl.username"], bearer["sasl.password"]
    bearer["sasl.jaas.config"] = made["sasl.jaas.config"]
    with AdminClient(bearer) as admin:
        assert admin.describe_cluster().nodes
    command("token", "renew", made["id"], "--for", "30m")
    assert command("token", "list", "--owner", "User:admin")[0]["expires"] < made["expires"]
    command("token", "expire", made["id"])
    assert command("token", "list") == []
    with pytest.raises(SaslAuthenticationError), AdminClient(bearer) as admin:
        admin.describe_cluster()

    connection = ("--config", str(tmp_path / "client.properties"))
    assert cli.main(["token", "renew", made["id"], *connection]) == 1
    assert cli.main(["token", "create", "--owner", "alice", *connection]) == 2
    told = capsys.readouterr().err
    assert f"there is no token '{made['id']}'" in told
    assert "write User:alice" in told
    assert made["secret"] not in broker.log


def test_users_and_acls_by_kafkas_own_tools(broker: SecuredBroker, certificates: Certificates, tmp_path: Path) -> None:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{login} username="{ADMIN[0]}" password="{ADMIN[1]}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
    }
    properties = tmp_path / "admin.properties"
    properties.write_text("\n".join(f"{name}={value}" for name, value in settings.items()))
    server = ("--bootstrap-server", broker.servers["CLIENTS"], "--command-config", str(properties))
    with JavaTools() as java:

        def run(tool: str, *arguments: str) -> str:
            done = java.run(tool, *server, *arguments)
            assert done.code == 0, done.out + done.err
            return done.out

        configs, acls = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.AclCommand"
        user = ("--entity-type", "users", "--entity-name", "bob")
        run(configs, "--alter", *user, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=bob-secret]")
        assert "iterations=8192" in run(configs, "--describe", *user)
        run(acls, "--add", "--allow-principal", "User:bob", "--producer", "--topic", "bobs")
        listed = run(acls, "--list", "--topic", "bobs")
        assert all(f"operation={operation}" in listed for operation in ("WRITE", "DESCRIBE", "CREATE"))

        bob = client_of(broker, certificates, "bob", "bob-secret")
        with Producer(bob) as producer:
            producer.send("bobs", b"x").result(20)
            with pytest.raises(TopicAuthorizationError):
                producer.send("others", b"x").result(20)

        run(acls, "--remove", "--force", "--topic", "bobs")
        assert "WRITE" not in run(acls, "--list", "--topic", "bobs")
        run(configs, "--alter", *user, "--delete-config", "SCRAM-SHA-512")
        assert "SCRAM" not in run(configs, "--describe", *user)
