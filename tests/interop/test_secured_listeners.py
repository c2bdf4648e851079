"""Other people's clients through our listeners with TLS and SASL: each way in with each client, and what refuses them.

Each writes three records and reads them back. `test_security` in tests/contract does so with ours, on both brokers.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import time
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas import AdminClient, NewTopic
from tests.peers import foreign_programs
from tests.peers.java_tools import JavaTools
from tests.peers.secure_kafka import PASSWORD, USER, SecureKafka, secure_barnabas
from tests.support.token_endpoint import TokenEndpoint

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka as kafka_python
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

pytestmark = pytest.mark.filterwarnings("ignore:.*read_text is deprecated:DeprecationWarning")

VALUES = [b"one", b"two", b"three"]


class Login(NamedTuple):
    """What lets a client in through a listener; the names of the fields are those of the programs in Go and Node."""

    listener: str
    Mechanism: str = ""
    User: str = USER
    Password: str = PASSWORD
    CA: str = ""
    Key: str = ""
    Token: str = ""
    IsToken: bool = False

    @property
    def protocol(self) -> str:
        if not self.Mechanism:
            return "SSL"
        return "SASL_SSL" if self.CA else "SASL_PLAINTEXT"


WAYS = {
    "TLS": ("TLS", ""),
    "certificate": ("MUTUAL", ""),
    "PLAIN": ("SASL", "PLAIN"),
    "PLAIN-TLS": ("SASLTLS", "PLAIN"),
    "SCRAM-256": ("SASL", "SCRAM-SHA-256"),
    "SCRAM-512-TLS": ("SASLTLS", "SCRAM-SHA-512"),
    "OAUTHBEARER": ("OIDC", "OAUTHBEARER"),
    "token": ("SASLTLS", "SCRAM-SHA-256"),
    "wrong password": ("SASLTLS", "SCRAM-SHA-512"),
    "wrong token": ("OIDC", "OAUTHBEARER"),
    "no certificate": ("MUTUAL", ""),
}
REFUSED = {"wrong password", "wrong token", "no certificate"}
#: What tells a delegation token from a password (`tokenauth`) is known to few.
WITH_TOKENS = {"franz-go", "java"}


@pytest.fixture(scope="module")
def secure() -> Iterator[SecureKafka]:
    with secure_barnabas() as running:
        yield running


@pytest.fixture
def topic(secure: SecureKafka, new_name: Callable[[str], str]) -> str:
    name = new_name("secured")
    with AdminClient(bootstrap_servers=secure.servers["PLAIN"]) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    return name


def login_of(secure: SecureKafka, way: str) -> Login:
    listener, mechanism = WAYS[way]
    login = Login(listener, mechanism)
    if listener in ("TLS", "MUTUAL", "SASLTLS"):
        login = login._replace(CA=str(secure.certificates.authority))
    if way == "certificate":
        login = login._replace(Key=str(secure.certificates.client))
    if mechanism == "OAUTHBEARER":
        claims = {"aud": "somebody else"} if way in REFUSED else {}
        login = login._replace(Token=TokenEndpoint(secure.identity_key, {}).token(USER, **claims))
    if way == "wrong password":
        login = login._replace(Password="wrong")
    return _with_delegation_token(secure, login) if way == "token" else login


def _with_delegation_token(secure: SecureKafka, login: Login) -> Login:
    by_password = {
        "bootstrap.servers": secure.servers["SASL"], "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": USER, "sasl.password": PASSWORD,
    }  # fmt: skip
    with AdminClient(by_password) as admin:
        token = admin.create_delegation_token()
    return login._replace(User=token.token_id, Password=b64encode(token.hmac).decode(), IsToken=True)


class RefusedError(Exception):
    """The broker did not let the client in."""


def with_kafka_python(servers: str, topic: str, login: Login) -> list[bytes]:
    class Provider(KafkaPythonTokens):  # type: ignore[misc]  # it has no types
        def token(self) -> str:
            return login.Token

    settings: dict[str, Any] = {"bootstrap_servers": servers, "security_protocol": login.protocol}
    if login.CA:
        settings |= {"ssl_cafile": login.CA, "ssl_certfile": login.Key or None, "ssl_keyfile": login.Key or None}
    if login.Mechanism == "OAUTHBEARER":
        settings |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()}
    elif login.Mechanism:
        settings["sasl_mechanism"] = login.Mechanism
        settings |= {"sasl_plain_username": login.User, "sasl_plain_password": login.Password}
    producer = kafka_python.KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value).get(8)
    producer.close()
    consumer = kafka_python.KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
    found = [record.value for _, record in zip(VALUES, consumer, strict=False)]
    consumer.close()
    return found


def with_aiokafka(servers: str, topic: str, login: Login) -> list[bytes]:
    import aiokafka
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
        async def token(self) -> str:
            return login.Token

    settings: dict[str, Any] = {"bootstrap_servers": servers, "security_protocol": login.protocol}
    if login.CA:
        settings["ssl_context"] = ssl.create_default_context(cafile=login.CA)
        if login.Key:
            settings["ssl_context"].load_cert_chain(login.Key)
    if login.Mechanism == "OAUTHBEARER":
        settings |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()}
    elif login.Mechanism:
        settings["sasl_mechanism"] = login.Mechanism
        settings |= {"sasl_plain_username": login.User, "sasl_plain_password": login.Password}

    async def run() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
        except aiokafka.errors.KafkaError as problem:
            await producer.stop()
            raise RefusedError(str(problem)) from problem
        for value in VALUES:
            await producer.send_and_wait(topic, value)
        await producer.stop()
        async with aiokafka.AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in VALUES]

    return asyncio.run(run())


def with_confluent_kafka(servers: str, topic: str, login: Login) -> list[bytes]:
    import confluent_kafka

    told: list[str] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": servers, "security.protocol": login.protocol, "message.timeout.ms": 5000, "log_level": 0,
        "error_cb": lambda problem: told.append(problem.str()),
    }  # fmt: skip
    if login.CA:
        settings["ssl.ca.location"] = login.CA
        if login.Key:
            settings |= {"ssl.certificate.location": login.Key, "ssl.key.location": login.Key}
    if login.Mechanism == "OAUTHBEARER":
        settings |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (login.Token, time.time() + 300)}
    elif login.Mechanism:
        settings |= {"sasl.mechanism": login.Mechanism, "sasl.username": login.User, "sasl.password": login.Password}
    producer = confluent_kafka.Producer(settings)
    for value in VALUES:
        producer.produce(topic, value, on_delivery=lambda problem, _: told.append(str(problem)) if problem else None)
    producer.flush(10)
    if told:
        raise RefusedError("; ".join(told))
    del settings["message.timeout.ms"]
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    end = time.monotonic() + 30
    while len(found) < len(VALUES) and time.monotonic() < end:
        record = consumer.poll(0.5)
        if record is not None and record.error() is None:
            found.append(record.value())
    consumer.close()
    return found


def with_program(command: list[str], topic: str, login: Login, **environment: str) -> list[bytes]:
    """Programs that write and read by themselves."""
    description = json.dumps({**login._asdict(), "Topic": topic})
    done = subprocess.run(
        [*command, description],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        raise RefusedError(done.stderr)
    return VALUES


def with_franz_go(servers: str, topic: str, login: Login) -> list[bytes]:
    return with_program([str(foreign_programs.go_program()), servers, "secured"], topic, login)


def with_kafkajs(servers: str, topic: str, login: Login) -> list[bytes]:
    script = Path(__file__).parent / "node" / "secured.js"
    packages = str(foreign_programs.node_packages() / "node_modules")
    return with_program(["node", str(script), servers], topic, login, NODE_PATH=packages)


def with_java(servers: str, topic: str, login: Login, folder: Path, java: JavaTools) -> list[bytes]:
    properties = folder / "client.properties"
    settings = {"security.protocol": login.protocol, "sasl.mechanism": login.Mechanism or "PLAIN"}
    if login.CA:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": login.CA}
        if login.Key:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": login.Key}
    if login.Mechanism:
        module = "plain.PlainLoginModule" if login.Mechanism == "PLAIN" else "scram.ScramLoginModule"
        password = login.Password.replace('"', '\\\\"')
        token = ' tokenauth="true"' if login.IsToken else ""
        settings["sasl.jaas.config"] = (
            f'org.apache.kafka.common.security.{module} required username="{login.User}" password="{password}"{token};'
        )
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    where = ("--bootstrap-server", servers, "--topic", topic, "--command-config", str(properties))
    sent = java.run("org.apache.kafka.tools.ConsoleProducer", *where, stdin="one\ntwo\nthree\n")
    if sent.code or "uthentication" in sent.err or "SSL" in sent.err:
        raise RefusedError(sent.out + sent.err)
    limits = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "20000")
    read = java.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *limits)
    assert read.code == 0, read.err
    return [line.encode() for line in read.out.split()]


CLIENTS: dict[str, Callable[[str, str, Login], list[bytes]]] = {
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "confluent-kafka": with_confluent_kafka,
    "franz-go": with_franz_go,
    "kafkajs": with_kafkajs,
}
#: What the ordinary run tries: of each client the way that takes most of it, and one refusal in all.
ORDINARY = {("SCRAM-512-TLS", client) for client in CLIENTS} | {("token", "franz-go"), ("wrong token", "aiokafka")}


def cases() -> Iterator[Any]:
    for way in sorted(WAYS):
        for client in sorted(CLIENTS):
            # Where kafka-python is refused, it leaves threads and sockets behind that tell on later tests.
            if (way != "token" or client in WITH_TOKENS) and (way not in REFUSED or client != "kafka-python"):
                yield pytest.param(way, client, marks=() if (way, client) in ORDINARY else pytest.mark.slow)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("way", "client"), list(cases()))
def test_a_client_goes_through_a_listener(secure: SecureKafka, topic: str, way: str, client: str) -> None:
    login = login_of(secure, way)
    try:
        if way not in REFUSED:
            assert CLIENTS[client](secure.servers[login.listener], topic, login) == VALUES
            return
        with pytest.raises(RefusedError) as caught:
            CLIENTS[client](secure.servers[login.listener], topic, login)
    except foreign_programs.CannotBuildError as missing:
        pytest.skip(str(missing))
    if login.Mechanism:
        assert login.Password not in str(caught.value) or login.Password == PASSWORD
    with AdminClient(bootstrap_servers=secure.servers["PLAIN"]) as admin:
        assert admin.describe_cluster().nodes


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", sorted(set(WAYS) - {"OAUTHBEARER", "wrong token"}))
def test_kafkas_own_tools_go_through_a_listener(
    secure: SecureKafka, topic: str, way: str, tmp_path: Path, java: JavaTools
) -> None:
    login = login_of(secure, way)
    arguments = (secure.servers[login.listener], topic, login, tmp_path, java)
    if way not in REFUSED:
        assert with_java(*arguments) == VALUES
        return
    with pytest.raises(RefusedError):
        with_java(*arguments)
