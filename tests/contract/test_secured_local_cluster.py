"""`barnabas up --brokers N --secure`: a cluster that lets clients in by a login, its own nodes by certificates."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.cli.main import main
from barnabas.config.properties_file import read_properties
from barnabas.errors import KafkaError, TopicAuthorizationError
from tests.contract.waiting import eventually, in_sync_replicas
from tests.peers import zookeeper
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from kazoo.client import KazooClient

#: Version 0, correlation id 1, no client id.
_API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
_UP = (sys.executable, "-m", "barnabas.cli.main", "up", "--brokers", "2", "--secure", "--listen", "localhost:0")
_ZOOKEEPER = pytest.param(
    ("--zookeeper",),
    id="zookeeper",
    marks=[pytest.mark.slow, pytest.mark.timeout(300)],
)


@contextmanager
def _running(folder: Path, *control: str) -> Iterator[dict[str, Any]]:
    """Run the command; gives the administrator's settings when clients are let in."""
    command = [*_UP, *control, "--data", str(folder / "data"), "--until-stdin-ends"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "settings" in line and "admin.properties" in line:
                break
        else:
            raise AssertionError(f"it ended with {process.wait(PATIENCE)}")
        yield dict(read_properties(str(folder / "data-secure" / "admin.properties")))
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def _of_broker(folder: Path, number: int) -> dict[str, str]:
    return dict(read_properties(str(folder / "data" / f"broker-{number}.properties")))


def _internal_address(folder: Path, number: int) -> tuple[str, int]:
    host, _, port = _of_broker(folder, number)["listeners"].partition("INTERNAL://")[2].rpartition(":")
    return host, int(port)


def _port_of_clients(listeners: str) -> str:
    return listeners.partition(",")[0].rpartition(":")[2]


@pytest.mark.parametrize("control", [pytest.param((), id="quorum"), _ZOOKEEPER])
def test_a_cluster_lets_in_who_can_log_in_and_is_allowed_to(tmp_path: Path, control: tuple[str, ...]) -> None:
    missing = zookeeper.why_not() if control else None
    if missing:
        pytest.skip(missing)
    with _running(tmp_path, *control) as settings:
        for number, server in enumerate(settings["bootstrap.servers"].split(","), 1):
            given = _of_broker(tmp_path, number)
            ports = {_port_of_clients(given[name]) for name in ("listeners", "advertised.listeners")}
            assert ports == {server.rpartition(":")[2]}, "a broker that is started by its file is where clients know it"
        with AdminClient(settings) as admin:
            admin.create_topics([NewTopic("orders", 2, 2)])
            eventually(lambda: [len(one) for one in in_sync_replicas(admin, "orders")] == [2, 2])
        with Producer({**settings, "acks": "all"}) as producer:
            producer.send("orders", b"first").result(PATIENCE)
        file = str(tmp_path / "data-secure" / "admin.properties")
        (tmp_path / "password").write_text("of-alice")
        assert main(["user", "add", "alice", "--password-file", str(tmp_path / "password"), "--config", file]) == 0
        alice = {**settings, "sasl.jaas.config": settings["sasl.jaas.config"].replace('"admin"', '"alice"')}
        password = settings["sasl.jaas.config"].partition('password="')[2].partition('"')[0]
        alice["sasl.jaas.config"] = alice["sasl.jaas.config"].replace(password, "of-alice")
        with Producer({**alice, "enable.idempotence": False}) as producer, pytest.raises(TopicAuthorizationError):
            producer.send("orders", b"not allowed").result(PATIENCE)
        acl = ["--principal", "User:alice", "--operation", "all", "--topic", "orders"]
        assert main(["acl", "add", *acl, "--config", file]) == 0
        with Producer({**alice, "enable.idempotence": False}) as producer:
            eventually(lambda: _is_sent(producer))
        # A certificate that brokers show to clients is none with which to come as a node.
        assert [_is_answered(tmp_path, one) for one in ("node.pem", "broker.pem", None)] == [True, False, False]
        if control:
            _check_that_zookeeper_refuses_strangers(tmp_path)
    with _running(tmp_path, *control) as again:
        assert again["sasl.jaas.config"] == settings["sasl.jaas.config"], "the administrator stays the same"
        with Consumer("orders", {**again, "auto.offset.reset": "earliest", "group.id": "all"}) as consumer:
            found: set[bytes] = set()
            eventually(lambda: found.update(r.value for r in consumer.poll(0.2)) or b"first" in found)
    (tmp_path / "data-secure" / "admin.properties").unlink()
    if control:
        # Who may write to ZooKeeper gives the administrator a new password.
        with _running(tmp_path, *control) as anew, AdminClient(anew) as admin:
            assert anew["sasl.jaas.config"] != settings["sasl.jaas.config"]
            assert "orders" in admin.list_topics()
        return
    done = subprocess.run(
        [*_UP, "--data", str(tmp_path / "data")], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert "put it back" in done.stderr


def _read_users(client: KazooClient) -> None:
    client.start(5)
    client.get("/config/users/admin")


def _check_that_zookeeper_refuses_strangers(folder: Path) -> None:
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException

    address = read_properties(str(folder / "data" / "broker-1.properties"))["zookeeper.connect"]
    stranger = KazooClient(address)
    try:
        # Either its session is refused, or the first thing that it asks.
        with pytest.raises((KazooException, stranger.handler.timeout_exception)):
            _read_users(stranger)
    finally:
        stranger.stop()
        stranger.close()
    assert (folder / "data" / "zookeeper-jaas.conf").stat().st_mode & 0o077 == 0


def _in_sync(admin: AdminClient) -> list[int]:
    return [len(partition.in_sync_replicas) for partition in admin.describe_topics(["orders"])["orders"].partitions]


def _is_sent(producer: Producer) -> bool:
    try:
        producer.send("orders", b"allowed").result(PATIENCE)
    except KafkaError:
        return False
    return True


def _is_answered(folder: Path, certificate: str | None) -> bool:
    """Whether the listener between brokers answers who comes with a certificate of the folder."""
    context = ssl.create_default_context(cafile=str(folder / "data-secure" / "authority.pem"))
    if certificate is not None:
        context.load_cert_chain(str(folder / "data-secure" / certificate))
    try:
        with (
            socket.create_connection(_internal_address(folder, 1), PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            secured.sendall(_API_VERSIONS)
            return bool(secured.recv(1))
    except (ssl.SSLError, ConnectionError):
        return False


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("advertised.listeners=SASL_SSL://a:1", "each broker has its own"),
        ("ssl.keystore.location=/x", "does not go together with --secure"),
    ],
)
def test_settings_that_it_makes_itself_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, told: str
) -> None:
    assert main([*_UP[3:], "--data", str(tmp_path / "data"), "--set", option]) == 2
    assert told in capsys.readouterr().err
