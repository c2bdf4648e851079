"""`barnabas up` and `Broker` as processes: starting, ending, being killed, and saying what is wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Broker
from barnabas.broker.runner import BrokerRunner
from barnabas.cli.main import main
from barnabas.client.admin.configs import ConfigResource
from barnabas.errors import ConfigError, IllegalStateError, KafkaError
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.records import read_batches
from tests.support.core_broker import SocketClient, batch, create, fetch, produce
from tests.support.patience import PATIENCE
from tests.support.stock_configurations import STOCK_LOG_DIRECTORY, STOCK_SERVER_PROPERTIES


def now_ms() -> int:
    return int(time.time() * 1000)


class Up:
    """A `barnabas up`, and the first line it printed."""

    def __init__(self, *arguments: str, listen: str = "127.0.0.1:0"):
        command = [sys.executable, "-m", "barnabas.cli.main", "up", *(("--listen", listen) if listen else ())]
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()

    @property
    def address(self) -> str:
        return self.line.removeprefix("listening on ").partition(",")[0]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """The exit code after a signal, and what was written to standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=120)
        return self.process.returncode, errors


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class TestUp:
    def test_the_first_line_says_where_it_listens_and_where_the_data_is(self, tmp_path: Path) -> None:
        up = Up("--data", str(tmp_path))
        assert up.line == f"listening on {up.address}, data in {tmp_path}\n"
        with SocketClient(up.address) as client:
            assert client.request(MetadataRequest(topics=None), 12).brokers[0].port == int(up.address.split(":")[1])
        up.end()

    @pytest.mark.parametrize("argument", ["--data={}", "--set=log.dirs={}", "--set=log.dir={}"])
    def test_the_data_directory_is_described_however_it_was_chosen(self, tmp_path: Path, argument: str) -> None:
        up = Up(argument.format(tmp_path))
        node = ConfigResource.broker(1)
        with AdminClient(bootstrap_servers=up.address) as admin:
            settings = admin.describe_configs([node])[node]
        assert settings["log.dir" if "log.dir=" in argument else "log.dirs"].value == str(tmp_path)
        assert up.end()[0] == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_signals_end_it_cleanly(self, tmp_path: Path, number: int) -> None:
        up = Up("--data", str(tmp_path))
        with SocketClient(up.address) as client:
            client.request(create("t"), 7)
            client.request(produce("t", batch(b"a", now_ms=now_ms())), 12)
            client.send(fetch("t", 1, max_wait_ms=60_000), 12)
            assert up.end(number) == (0, "")
        assert (tmp_path / ".kafka_cleanshutdown").exists()

    def test_kafkas_stock_server_properties_load(self, tmp_path: Path) -> None:
        path = tmp_path / "server.properties"
        changed = STOCK_SERVER_PROPERTIES.replace(STOCK_LOG_DIRECTORY, str(tmp_path / "logs"))
        path.write_text(changed.replace("num.partitions=1", "num.partitions=2"))
        up = Up("--config", str(path))
        with SocketClient(up.address) as client:
            client.request(create("t", -1), 7)
            assert len(client.request(MetadataRequest(topics=None), 12).topics[0].partitions) == 2
        code, errors = up.end()
        assert code == 0
        assert "num.network.threads" in errors
        assert (tmp_path / "logs" / "metadata.sqlite").exists()

    def test_the_stock_listener_means_this_machine_only(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        path = tmp_path / "server.properties"
        path.write_text(f"listeners=PLAINTEXT://:{port}\nlog.dirs={tmp_path / 'logs'}\n")
        up = Up("--config", str(path), listen="")
        assert up.address == f"127.0.0.1:{port}"
        code, errors = up.end()
        assert code == 0
        assert "listens on 127.0.0.1 only" in errors

    def test_what_is_set_on_the_command_line_wins(self, tmp_path: Path) -> None:
        path = tmp_path / "server.properties"
        path.write_text("num.partitions=2\n")
        up = Up("--config", str(path), "--data", str(tmp_path / "d"), "--set", "num.partitions=5")
        with SocketClient(up.address) as client:
            client.request(create("t", -1), 7)
            assert len(client.request(MetadataRequest(topics=None), 12).topics[0].partitions) == 5
        up.end()

    @pytest.mark.parametrize(
        ("arguments", "code", "says"),
        [
            (("--set", "num.partitoins=3"), 2, "did you mean 'num.partitions'"),
            (("--set", "num.partitions"), 2, "NAME=VALUE"),
            (("--listen", "9092"), 2, "must be HOST:PORT"),
            (("--config", "/no/such/file"), 2, "/no/such/file"),
            (("--set", "remote.log.storage.system.enable=true"), 2, "is not supported yet (tiered storage)"),
            (("--listen", "0.0.0.0:0"), 1, "--allow-remote"),
            (("--listen", "203.0.113.1:0", "--allow-remote"), 1, "no such address"),
            (("--data", "/proc/nowhere"), 1, "cannot be used"),
        ],
    )
    def test_what_cannot_be_is_said_in_one_line(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        arguments: tuple[str, ...],
        code: int,
        says: str,
    ) -> None:
        async def answer(*arguments: object) -> None:
            raise AssertionError("the broker takes it, and is about to serve")

        monkeypatch.setattr(BrokerRunner, "_answer", answer)
        given = ["--listen", "127.0.0.1:0"] if "--listen" not in arguments else []
        if "--data" not in arguments and "log.dirs" not in str(arguments):
            given += ["--data", str(tmp_path)]
        assert main(["up", *given, *arguments]) == code
        said = capsys.readouterr()
        assert said.out == ""
        assert says in said.err
        assert said.err.count("\n") == 1

    def test_a_port_in_use_is_said_in_one_line(self, broker: Broker, tmp_path: Path) -> None:
        code, errors = Up("--data", str(tmp_path), listen=broker.bootstrap_servers).end()
        assert code == 1
        assert errors == (
            f"barnabas up: cannot listen on {broker.bootstrap_servers}: the port is in use; stop what uses it, "
            "or listen elsewhere (port 0 takes any free one)\n"
        )

    def test_a_data_directory_in_use_is_said_in_one_line(self, broker: Broker) -> None:
        code, errors = Up("--data", broker.data_dir).end()
        assert code == 1
        assert f"the data directory {broker.data_dir} is in use" in errors
        assert errors.count("\n") == 1


class TestDurability:
    def test_sigkill_loses_no_acknowledged_record(self, broker: Broker) -> None:
        acknowledged = []
        with SocketClient(broker.bootstrap_servers) as client:
            client.request(create("t"), 7)
            for number in range(300):
                client.send(produce("t", batch(b"%d" % number, now_ms=now_ms())), 12)
            for number in range(200):
                answer = client.receive(0, 12)
                assert answer.responses[0].partition_responses[0].error_code == 0
                acknowledged.append(b"%d" % number)
            broker.kill()
        broker.start()
        with SocketClient(broker.bootstrap_servers) as client:
            records = client.request(fetch("t"), 12).responses[0].partitions[0].records
        found = [record.value for stored in read_batches(records) for record in stored]
        assert found[: len(acknowledged)] == acknowledged
        assert found == [b"%d" % number for number in range(len(found))]

    def test_topics_survive_sigkill(self, broker: Broker) -> None:
        with SocketClient(broker.bootstrap_servers) as client:
            created = client.request(create("t", 7), 7).topics[0].topic_id
        broker.kill()
        broker.start()
        with SocketClient(broker.bootstrap_servers) as client:
            (topic,) = client.request(MetadataRequest(topics=None), 12).topics
        assert (topic.name, topic.topic_id, len(topic.partitions)) == ("t", created, 7)


class TestEmbedded:
    def test_a_temporary_directory_is_removed_and_a_given_one_stays(self, tmp_path: Path) -> None:
        with Broker() as broker:
            data = broker.data_dir
            assert os.path.isdir(data)
        assert not os.path.exists(data)
        with Broker(data_dir=tmp_path) as broker:
            assert broker.data_dir == str(tmp_path)
        assert (tmp_path / "metadata.sqlite").exists()

    @pytest.mark.parametrize("in_process", [False, True])
    def test_it_restarts_on_the_same_port_and_data(self, in_process: bool) -> None:
        with Broker(in_process=in_process, num_partitions=4) as broker:
            address = broker.bootstrap_servers
            with SocketClient(address) as client:
                client.request(create("t", -1), 7)
            broker.restart()
            assert broker.bootstrap_servers == address
            with SocketClient(address) as client:
                assert len(client.request(MetadataRequest(topics=None), 12).topics[0].partitions) == 4

    @pytest.mark.parametrize("in_process", [False, True])
    def test_it_listens_on_ipv6(self, in_process: bool) -> None:
        if not socket.has_ipv6 or not ipv6_loopback():
            pytest.skip("this machine has no IPv6 loopback address")
        with Broker(listen="[::1]:0", in_process=in_process) as broker:
            assert broker.bootstrap_servers == f"[::1]:{broker.port}"
            with SocketClient(f"::1:{broker.port}") as client:
                assert client.request(MetadataRequest(topics=[]), 12).brokers[0].host == "::1"

    def test_a_child_dies_with_its_parent(self, tmp_path: Path) -> None:
        code = "from barnabas import Broker; b = Broker(); print(b.pid, flush=True); input()"
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            parent.kill()
        end = time.monotonic() + PATIENCE
        while alive(child) and time.monotonic() < end:
            time.sleep(0.02)
        assert not alive(child)

    @pytest.mark.parametrize("in_process", [False, True])
    def test_a_broker_that_nobody_closed_leaves_nothing_behind(self, in_process: bool) -> None:
        code = f"from barnabas import Broker; b = Broker(in_process={in_process}); print(b.data_dir, b.port)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
        data, port = done.stdout.split()
        assert done.stderr == ""
        assert not os.path.exists(data)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port))).close()

    @pytest.mark.parametrize("in_process", [False, True])
    def test_settings_that_make_no_sense_raise(self, in_process: bool) -> None:
        with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
            Broker(in_process=in_process, num_partitoins=3)

    @pytest.mark.parametrize("in_process", [False, True])
    def test_a_directory_in_use_raises(self, broker: Broker, in_process: bool) -> None:
        with pytest.raises(KafkaError, match="is in use"):
            Broker(in_process=in_process, data_dir=broker.data_dir)

    def test_reading_the_log_does_not_make_the_child_write_over_it(self) -> None:
        with Broker(num_network_threads=2) as broker:
            said = broker.log_text()
            assert "num.network.threads is ignored" in said
            log = broker._home._log.fileno()  # type: ignore[union-attr]  # the child's standard error
            os.lseek(log, 3, os.SEEK_SET)  # as if the child had written three bytes
            assert broker.log_text() == said
            assert os.lseek(log, 0, os.SEEK_CUR) == 3

    def test_in_process_it_cannot_be_killed(self) -> None:
        with Broker(in_process=True) as broker, pytest.raises(IllegalStateError):
            broker.kill()

    def test_stopping_twice_is_harmless_and_starting_twice_is_not(self, broker: Broker) -> None:
        with pytest.raises(IllegalStateError):
            broker.start()
        broker.stop()
        broker.stop()
        broker.close()


def ipv6_loopback() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestConnections:
    def test_a_client_that_does_not_read_its_responses_holds_nobody_up(self, broker: Broker) -> None:
        with SocketClient(broker.bootstrap_servers) as client, SocketClient(broker.bootstrap_servers) as other:
            client.request(create("t"), 7)
            client.request(produce("t", batch(b"x" * 900_000, now_ms=now_ms())), 12)
            for _ in range(100):
                client.send(fetch("t"), 12)
            assert other.request(MetadataRequest(topics=None), 12).topics
            resident = resident_mb(broker.pid)
            answers = [client.receive(1, 12) for _ in range(100)]
        assert all(len(answer.responses[0].partitions[0].records) > 900_000 for answer in answers)
        assert resident < 70

    def test_many_requests_ahead_of_a_parked_one_are_answered_in_order(self, broker: Broker) -> None:
        with SocketClient(broker.bootstrap_servers) as client, SocketClient(broker.bootstrap_servers) as writer:
            client.request(create("t"), 7)
            client.send(fetch("t", max_wait_ms=30_000), 12)
            for _ in range(5000):
                client.send(MetadataRequest(topics=[]), 12)
            writer.request(produce("t", batch(b"a", now_ms=now_ms())), 12)
            assert len(client.receive(1, 12).responses[0].partitions[0].records)
            for _ in range(5000):
                assert client.receive(3, 12).topics == []

    def test_garbage_closes_the_connection_and_is_reported(self, broker: Broker) -> None:
        with SocketClient(broker.bootstrap_servers) as client:
            client.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(ConnectionError):
                client.receive(3, 12)
        assert "socket.request.max.bytes" in broker.log_text()

    def test_more_connections_than_allowed_are_refused(self) -> None:
        with Broker(max_connections=2) as broker:
            clients = [SocketClient(broker.bootstrap_servers) for _ in range(2)]
            assert all(client.request(MetadataRequest(topics=[]), 12) for client in clients)
            with SocketClient(broker.bootstrap_servers) as third, pytest.raises(ConnectionError):
                third.request(MetadataRequest(topics=[]), 12)
            for client in clients:
                client.socket.close()


def resident_mb(pid: Any) -> float:
    with open(f"/proc/{pid}/status") as file:
        return int(file.read().partition("VmRSS:")[2].split()[0]) / 1024
