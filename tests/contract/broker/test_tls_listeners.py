"""Listeners with TLS: who gets in, who does not and is told why, and certificates that are replaced."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, Producer
from barnabas.broker.network.unauthenticated_connections import LOGIN_SECONDS
from barnabas.errors import KafkaError, SslAuthenticationError
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.contract.waiting import eventually
from tests.peers.secure_kafka import Certificates
from tests.support.patience import PATIENCE
from tests.support.secured_broker import SecuredBroker, secured_broker

LISTENERS = "TLS://localhost:0,MUTUAL://localhost:0,WANTED://localhost:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://:1"
PROTOCOLS = "TLS:SSL,MUTUAL:SSL,WANTED:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


def settings_of(certificates: Certificates) -> dict[str, str]:
    return {
        "listeners": LISTENERS,
        "listener.security.protocol.map": PROTOCOLS,
        "ssl.keystore.type": "PEM",
        # Each of the tests' certificates has a subject of its own.
        "ssl.allow.dn.changes": "true",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.wanted.ssl.client.auth": "requested",
        "listener.name.wanted.ssl.enabled.protocols": "TLSv1.2",
    }


@pytest.fixture(scope="module")
def broker(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("tls"), settings_of(certificates)) as running:
        yield running


def client_of(server: str, certificates: Certificates, key: Path | None = None, **more: Any) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": server,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(certificates.authority),
        "default.api.timeout.ms": 20_000,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return {**settings, "ssl.keystore.location": str(key)} if key else settings


def ask(settings: dict[str, Any]) -> int:
    with AdminClient(settings) as admin:
        return len(admin.describe_cluster().nodes)


@pytest.mark.parametrize(("listener", "with_key"), [("TLS", False), ("MUTUAL", True), ("WANTED", False)])
def test_records_travel_both_ways(
    broker: SecuredBroker, certificates: Certificates, listener: str, with_key: bool
) -> None:
    settings = client_of(broker.servers[listener], certificates, certificates.client if with_key else None)
    del settings["default.api.timeout.ms"]
    payloads = [bytes([n]) * 100_000 for n in range(40)]
    with Producer(settings) as producer:
        for payload in payloads:
            producer.send(f"travel-{listener}", payload)
    with Consumer(f"travel-{listener}", settings, group_id="g", auto_offset_reset="earliest") as consumer:
        seen: list[bytes] = []
        deadline = time.monotonic() + PATIENCE
        while len(seen) < len(payloads) and time.monotonic() < deadline:
            seen += [record.value for record in consumer.poll(1.0)]
    assert seen == payloads


@pytest.mark.parametrize(
    ("listener", "key", "says"),
    [
        ("MUTUAL", None, "it has sent no certificate, and ssl.client.auth is required"),
        ("MUTUAL", "stranger", "its certificate is not accepted"),
        ("WANTED", "stranger", "its certificate is not accepted"),
    ],
)
def test_a_wrong_certificate_is_told_to_the_client_and_the_operator(
    broker: SecuredBroker, certificates: Certificates, listener: str, key: str | None, says: str
) -> None:
    of_client = getattr(certificates, key) if key else None
    with pytest.raises(SslAuthenticationError):
        ask(client_of(broker.servers[listener], certificates, of_client))
    eventually(lambda: says in broker.log)


def test_who_does_not_speak_tls_is_told_apart(broker: SecuredBroker, certificates: Certificates) -> None:
    with pytest.raises(KafkaError):
        ask({"bootstrap.servers": broker.servers["TLS"], "default.api.timeout.ms": 2000})
    eventually(lambda: "it does not speak TLS, which this listener wants" in broker.log)


def test_versions_and_suites_are_the_listeners(broker: SecuredBroker, certificates: Certificates) -> None:
    def agreed(listener: str, **limits: Any) -> tuple[str | None, str]:
        context = ssl.create_default_context(cafile=str(certificates.authority))
        for name, value in limits.items():
            setattr(context, name, value)
        host, _, port = broker.servers[listener].rpartition(":")
        with (
            socket.create_connection((host, int(port)), 10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            suite = secured.cipher()
            return secured.version(), suite[0] if suite else ""

    assert agreed("TLS")[0] == "TLSv1.3"
    version, suite = agreed("WANTED")
    assert version == "TLSv1.2"
    assert suite.startswith("ECDHE-")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        agreed("WANTED", minimum_version=ssl.TLSVersion.TLSv1_3)


class TestHandshakesThatAreNone:
    def connect(self, broker: SecuredBroker) -> socket.socket:
        host, _, port = broker.servers["TLS"].rpartition(":")
        return socket.create_connection((host, int(port)), 10)

    @pytest.mark.parametrize("size", [300, pytest.param(6000, marks=pytest.mark.slow)])
    def test_silent_and_slow_ones_hold_nobody_up(
        self, broker: SecuredBroker, certificates: Certificates, size: int
    ) -> None:
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(self.connect(broker)) for _ in range(size)]
            for one in crowd[::2]:
                # A ClientHello is announced, and one byte of it comes.
                one.sendall(b"\x16\x03\x01\x02\x00\x01")
            started = time.monotonic()
            assert ask(client_of(broker.servers["TLS"], certificates)) == 1
            assert time.monotonic() - started < 10

    def test_500_whole_hellos_at_once_hold_nobody_up(self, broker: SecuredBroker, certificates: Certificates) -> None:
        incoming, hello = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context().wrap_bio(incoming, hello, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        whole = hello.read()
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(self.connect(broker)) for _ in range(500)]
            for one in crowd:
                one.sendall(whole)
            started = time.monotonic()
            for listener in ("PLAINTEXT", "TLS"):
                settings = client_of(broker.servers[listener], certificates)
                settings["security.protocol"] = "SSL" if listener == "TLS" else "PLAINTEXT"
                if listener == "PLAINTEXT":
                    del settings["ssl.truststore.location"]
                assert ask(settings) == 1
            assert time.monotonic() - started < 10
            # Each was computed and answered: a ServerHello, not an end.
            crowd[-1].settimeout(PATIENCE)
            assert crowd[-1].recv(1) == b"\x16"

    def test_large_ones_are_ended(self, broker: SecuredBroker) -> None:
        # Records of a handshake whose message is said to have 16 MB.
        record = b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(0x4000 - 4)
        with self.connect(broker) as one:
            with contextlib.suppress(OSError):
                for _ in range(64):
                    one.sendall(record)
            one.settimeout(10)
            with contextlib.suppress(ConnectionError):
                while one.recv(65536):
                    pass

    def test_noise_is_ended(self, broker: SecuredBroker, certificates: Certificates) -> None:
        for seed in range(20):
            with self.connect(broker) as one:
                one.sendall(bytes((seed * 37 + n * n) % 256 for n in range(500)))
                one.settimeout(10)
                with contextlib.suppress(ConnectionError):
                    while one.recv(65536):
                        pass
        assert ask(client_of(broker.servers["TLS"], certificates)) == 1


def serial_of(server: str, certificates: Certificates) -> str:
    host, _, port = server.rpartition(":")
    context = ssl.create_default_context(cafile=str(certificates.authority))
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        found = secured.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def test_a_replaced_file_holds_for_new_connections(tmp_path: Path) -> None:
    old, new = (Certificates.make(tmp_path / name) for name in ("old", "new") if not (tmp_path / name).mkdir())
    used = Certificates(*(tmp_path / f"{name}.pem" for name in Certificates._fields))
    for source, target in zip(old, used, strict=True):
        shutil.copy(source, target)
    with secured_broker(tmp_path / "broker", settings_of(used)) as broker:
        before = serial_of(broker.servers["TLS"], old)
        # Half a file first: the old certificate goes on, with a warning.
        used.broker.write_text("-----BEGIN")
        eventually(lambda: "goes on with the certificates that it has" in broker.log)
        assert serial_of(broker.servers["TLS"], old) == before
        shutil.copy(new.broker, tmp_path / "next.pem")
        os.replace(tmp_path / "next.pem", used.broker)
        eventually(lambda: "has new certificates" in broker.log)
        assert serial_of(broker.servers["TLS"], new) != before


def test_a_key_store_is_replaced_by_a_dynamic_setting(tmp_path: Path) -> None:
    from barnabas.admin import ConfigResource
    from barnabas.errors import InvalidRequestError

    old, new = (Certificates.make(tmp_path / name) for name in ("old", "new") if not (tmp_path / name).mkdir())
    with secured_broker(tmp_path / "broker", settings_of(old)) as broker:
        before = serial_of(broker.servers["TLS"], old)

        def set_store(path: Path) -> None:
            with AdminClient(bootstrap_servers=broker.servers["PLAINTEXT"]) as admin:
                change = {"listener.name.tls.ssl.keystore.location": str(path)}
                admin.incremental_alter_configs({ConfigResource.broker(1): change})

        with pytest.raises(InvalidRequestError, match="cannot be read"):
            set_store(tmp_path / "nowhere.pem")
        assert serial_of(broker.servers["TLS"], old) == before
        set_store(new.broker)
        assert serial_of(broker.servers["TLS"], new) != before
        assert serial_of(broker.servers["WANTED"], old) == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ssl.keystore.location": ""}, "TLS needs the broker's private key and certificate"),
        ({"ssl.keystore.location": "/nowhere.pem"}, "cannot be read"),
        ({"ssl.principal.mapping.rules": "RULE:"}, "ssl.principal.mapping.rules"),
        ({"listener.name.tls.ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols"),
    ],
)
def test_what_cannot_be_used_keeps_the_broker_from_starting(
    certificates: Certificates, tmp_path: Path, change: dict[str, str], says: str
) -> None:
    broker = SecuredBroker(tmp_path, {**settings_of(certificates), **change})
    assert broker.process.wait(60) == 2
    broker.stop()
    assert says in broker.log
    assert "listener TLS" in broker.log


class TestSlowRecords:
    """A client that sends a TLS record now and then, so that the socket is never silent for long."""

    def dribble(self, connections: list[socket.socket], records: list[bytes], every: float) -> int:
        """Send each connection one record at a time; how many are still open after the last."""
        for record in records:
            for one in connections:
                with contextlib.suppress(OSError):
                    one.sendall(record)
            time.sleep(every)
        still_open = 0
        for one in connections:
            one.settimeout(0.1)
            try:
                while one.recv(65536):
                    pass
            except TimeoutError:
                still_open += 1
            except OSError:
                pass
        return still_open

    @pytest.mark.slow
    @pytest.mark.timeout(300)
    def test_a_handshake_of_one_record_every_twenty_seconds_ends_after_a_minute(
        self, broker: SecuredBroker, certificates: Certificates
    ) -> None:
        incoming, hello = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context().wrap_bio(incoming, hello, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        message = hello.read()[5:]
        # A ClientHello may come in records of any size; these have a byte each.
        records = [b"\x16\x03\x01\x00\x01" + message[at : at + 1] for at in range(4)]
        with contextlib.ExitStack() as stack:
            handshakes = TestHandshakesThatAreNone()
            crowd = [stack.enter_context(handshakes.connect(broker)) for _ in range(100)]
            began = time.monotonic()
            assert self.dribble(crowd, records[:2], 20) == len(crowd)
            assert ask(client_of(broker.servers["TLS"], certificates)) == 1
            self.dribble(crowd, records[2:], 0)
            while self.dribble(crowd, [], 0) and time.monotonic() - began < LOGIN_SECONDS + 30:
                time.sleep(1)
            assert LOGIN_SECONDS - 1 <= time.monotonic() - began < LOGIN_SECONDS + 30
            assert ask(client_of(broker.servers["TLS"], certificates)) == 1

    def test_a_request_in_records_of_a_byte_holds_nobody_up_and_ends_when_they_stop(
        self, certificates: Certificates, tmp_path: Path
    ) -> None:
        idle = {**settings_of(certificates), "connections.max.idle.ms": "1500"}
        with secured_broker(tmp_path, idle) as broker, contextlib.ExitStack() as stack:
            context = ssl.create_default_context(cafile=str(certificates.authority))
            handshakes = TestHandshakesThatAreNone()
            crowd = [
                stack.enter_context(context.wrap_socket(handshakes.connect(broker), server_hostname="localhost"))
                for _ in range(20)
            ]
            request = encode_request(MetadataRequest(topics=[]), 12, 1, "slow")
            began = time.monotonic()
            for at in range(4):
                for one in crowd:
                    one.sendall(request[at : at + 1])
                assert ask(client_of(broker.servers["TLS"], certificates)) == 1
                time.sleep(0.6)
            # So far something came within the time; now nothing does.
            assert time.monotonic() - began > 1.5
            for one in crowd:
                one.settimeout(PATIENCE)
                with contextlib.suppress(ConnectionResetError, ssl.SSLError):
                    assert one.recv(1) == b""
