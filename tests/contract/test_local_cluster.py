"""A cluster of ours on this machine: `Broker(brokers=3)` and `barnabas up --brokers`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, TopicPartition
from barnabas.admin import ConfigResource
from barnabas.cli.main import main
from barnabas.errors import ConfigError, IllegalStateError
from tests.contract.waiting import create_once, eventually, in_sync_replicas
from tests.peers.apache_kafka import free_port

_SOON = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}
#: A few partitions of internal topics are enough, and make the cluster's start cheap.
_FEW = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}


def _values(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, **_SOON}) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            found += [record.value for record in consumer.poll(timeout=0.5)]
    return found


def _overview(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Any:
    """What `barnabas cluster` says."""
    capsys.readouterr()
    assert main(["cluster", "-b", broker.bootstrap_servers, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def _trouble(found: Any) -> dict[str, list[str]]:
    """The partitions that need attention."""
    return {name: sorted(found[name]) for name in ("offline", "underReplicated", "underMinIsr")}


def test_nothing_is_lost_when_one_of_three_brokers_is_killed_and_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(brokers=3, config=_FEW) as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, **_SOON}
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            admin.create_topics([NewTopic("news", replica_assignments={0: [1, 2, 3]})])
            strict = NewTopic("strict", replica_assignments={0: [2, 3, 1]}, configs={"min.insync.replicas": "3"})
            admin.create_topics([NewTopic("alone", replica_assignments={0: [1]}), strict])
            eventually(lambda: in_sync_replicas(admin, "news") == [{1, 2, 3}])
            producer.send("news", b"before").result(30)
            broker.kill(1)
            assert broker.pid_of(1) is None
            producer.send("news", b"while it is away").result(60)
            # With eligible leader replicas (KIP-966) an ISR loses its last replica, too.
            below = {"offline": ["alone:0"], "underReplicated": ["alone:0", "news:0", "strict:0"]}
            wanted = {**below, "underMinIsr": ["alone:0", "strict:0"]}
            eventually(lambda: _trouble(_overview(broker, capsys)) == wanted)
            found = _overview(broker, capsys)
            assert found["away"] == [1]
            assert (found["controller"], found["controllerEpoch"] > 0) == (100, True)
            assert not any(row["controller"] for row in found["brokers"])
            assert main(["cluster", "unregister", "2", "-b", broker.bootstrap_servers]) == 2
            assert "broker 2 is in service" in capsys.readouterr().err
            broker.start(1)
            eventually(lambda: in_sync_replicas(admin, "news") == [{1, 2, 3}], 60)
            eventually(lambda: not any(_trouble(_overview(broker, capsys)).values()), 60)
            broker.restart(2)
            producer.send("news", b"after").result(60)
        assert _values(broker, "news", 3) == [b"before", b"while it is away", b"after"]
        broker.stop()
        broker.start()
        assert _values(broker, "news", 3) == [b"before", b"while it is away", b"after"]


def test_partitions_are_moved_throttled_cancelled_and_led_by_the_preferred_replica(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Broker(brokers=3, config=_FEW) as broker:

        def topic(*arguments: str, code: int = 0) -> tuple[str, str]:
            capsys.readouterr()
            said = main(["topic", *arguments, "-b", broker.bootstrap_servers])
            found = capsys.readouterr()
            assert said == code, found
            return found.out, found.err

        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, **_SOON}
        plan, way_back = tmp_path / "plan.json", tmp_path / "way-back.json"
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            placed = {0: [1, 2], 1: [1, 2]}
            admin.create_topics([NewTopic("news", replica_assignments=placed, configs={"min.insync.replicas": "1"})])
            for _ in range(10):
                producer.send("news", bytes(100_000), partition=0).result(30)
            assert not _is_throttled(admin)

            # Slow enough to be looked at, and to be cancelled.
            out, err = topic("reassign", "execute", "news:0", "--to", "2,3", "--throttle", "1000")
            way_back.write_text(out)
            assert json.loads(out)["partitions"] == [{"topic": "news", "partition": 0, "replicas": [1, 2]}]
            assert "1 of 1 partitions are moved, 1 replicas copied" in err
            eventually(lambda: _is_throttled(admin))
            (row,) = json.loads(topic("reassign", "status", "-o", "json")[0])
            assert (row["partition"], row["state"], row["adding"], row["removing"]) == (0, "moving", [3], [1])
            assert "news:0 is being moved" in topic("reassign", "execute", "news:1", "--to", "3", code=2)[1]
            assert "the throttle is removed" in topic("reassign", "cancel", "news")[1]
            eventually(lambda: not _is_throttled(admin))
            eventually(lambda: _sets(_replicas(admin)) == _sets(placed))
            assert "nothing is being moved" in topic("reassign", "status")[1]

            plan.write_text(topic("reassign", "plan", "news", "--to", "2,3", "-r", "1")[0])
            assert _sets(_replicas(admin)) == _sets(placed)
            topic("reassign", "status", "--file", str(plan), code=1)
            topic("reassign", "execute", "--file", str(plan), "--throttle", "100000000")
            eventually(lambda: not admin.list_partition_reassignments(), 60)
            assert sorted(_replicas(admin).values()) == [[2], [3]]
            out, err = topic("reassign", "status", "--file", str(plan))
            assert out.count("done") == 2
            assert "the throttle is removed" in err
            eventually(lambda: not _is_throttled(admin))

            topic("reassign", "execute", "--file", str(way_back))
            eventually(lambda: not admin.list_partition_reassignments(), 60)
            assert _replicas(admin)[0] == [1, 2]
            topic("elect", "news")
            eventually(lambda: admin.describe_topics(["news"])["news"].partitions[0].leader.id == 1)  # type: ignore[union-attr]
            assert "the cluster has no broker 9" in topic("reassign", "plan", "news", "--to", "9", code=2)[1]
        assert len(_values(broker, "news", 10)) == 10


def test_a_replica_that_was_not_in_sync_leads_only_where_that_is_allowed_or_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Broker(brokers=3, config=_FEW) as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, **_SOON}
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            least = {"min.insync.replicas": "1"}
            allowed = {**least, "unclean.leader.election.enable": "true"}
            for name, configs in (("careful", least), ("careless", allowed)):
                admin.create_topics([NewTopic(name, replica_assignments={0: [1, 2]}, configs=configs)])
                eventually(lambda name=name: in_sync_replicas(admin, name) == [{1, 2}])  # type: ignore[misc]
                producer.send(name, b"on both").result(30)
            broker.kill(2)
            for name in ("careful", "careless"):
                producer.send(name, b"on one").result(60)
            broker.kill(1)
            broker.start(2)
            eventually(lambda: _leader(admin, "careless") == 2, 60)
            assert _leader(admin, "careful") is None
            assert main(["topic", "elect", "careful", "-b", broker.bootstrap_servers]) == 1
            assert _leader(admin, "careful") is None
            assert main(["topic", "elect", "careful", "--unclean", "-b", broker.bootstrap_servers]) == 0
            eventually(lambda: _leader(admin, "careful") == 2)
            for name in ("careful", "careless"):
                producer.send(name, b"after").result(60)
            broker.start(1)
            for name in ("careful", "careless"):
                eventually(lambda name=name: in_sync_replicas(admin, name) == [{1, 2}], 60)  # type: ignore[misc]
                assert main(["topic", "elect", name, "-b", broker.bootstrap_servers]) == 0
                eventually(lambda name=name: _leader(admin, name) == 1)  # type: ignore[misc]
        for name in ("careful", "careless"):
            assert _values(broker, name, 2) == [b"on both", b"after"]


def _leader(admin: AdminClient, topic: str) -> int | None:
    (partition,) = admin.describe_topics([topic])[topic].partitions
    return None if partition.leader is None else partition.leader.id


def _replicas(admin: AdminClient) -> dict[int, list[int]]:
    found = admin.describe_topics(["news"])["news"].partitions
    return {partition.partition: [node.id for node in partition.replicas] for partition in found}


def _sets(replicas: dict[int, list[int]]) -> dict[int, set[int]]:
    """Without the order, in which Apache Kafka's cancelling leaves other replicas first."""
    return {partition: set(ids) for partition, ids in replicas.items()}


def _is_throttled(admin: AdminClient) -> bool:
    """Whether the topic names replicas whose copies are throttled."""
    (entries,) = admin.describe_configs([ConfigResource.topic("news")]).values()
    return any(bool(entry.value) for name, entry in entries.items() if ".throttled." in name)


def test_a_number_is_for_a_node_that_there_is() -> None:
    with pytest.raises(ConfigError, match="in one process there is one broker"):
        Broker(brokers=3, in_process=True)
    with pytest.raises(ConfigError, match=r"node\.id"):
        Broker(brokers=3, config={"node.id": 5})
    with Broker(in_process=True) as broker, pytest.raises(IllegalStateError, match="leave the number out"):
        broker.stop(1)


@pytest.mark.slow
def test_another_of_three_controllers_leads_when_the_active_one_is_killed() -> None:
    with Broker(brokers=3, controllers=3, config=_FEW) as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, **_SOON}
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            admin.create_topics([NewTopic("news", 1, 3)])
            sent = []
            for number in range(6):
                leader = admin.describe_metadata_quorum().leader_id
                sent += [f"{number}-{one}".encode() for one in range(100)]
                waiting = [producer.send("news", value) for value in sent[-100:]]
                broker.kill(leader)
                # Another is elected within controller.quorum.fetch.timeout.ms and an election.
                create_once(admin, f"topic-{number}", 1, 3, 15)
                for future in waiting:
                    future.result(60)
                broker.start(leader)
        assert _values(broker, "news", len(sent)) == sent


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row: each node serves its metrics on one."""
    while True:
        first = free_port()
        with contextlib.ExitStack() as held:
            try:
                for port in range(first + 1, first + count):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first


def _line(process: subprocess.Popen[str], begins: str) -> str:
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith(begins):
        assert line, f"it ended before it said {begins!r}"
    return line.strip()


def test_the_command_starts_a_killed_broker_again_leaves_an_ended_one_and_ends_all_on_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--brokers", "2", "--listen", "127.0.0.1:0"]
    command += ["--metrics", f"127.0.0.1:{_free_ports(3)}", "--data", str(tmp_path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
        contextlib.ExitStack() as after,
    ):
        after.callback(process.kill)
        nodes = [_line(process, node) for node in ("controller 100", "broker 1", "broker 2")]
        pids = [int(line.partition("process ")[2].partition(",")[0]) for line in nodes]
        assert _line(process, "listening on ").endswith(f"data in {tmp_path}")
        os.kill(pids[2], signal.SIGKILL)
        assert _line(process, "broker 2 has ended").endswith("by signal 9; it is started again in 1 s")
        pids.append(int(_line(process, "broker 2 is started again").rpartition(" ")[2]))
        # At the address of its first life, and with metrics of its own.
        address, metrics = nodes[2].split()[3].rstrip(","), nodes[2].rpartition(" ")[2]
        with AdminClient({"bootstrap.servers": address, **_SOON}) as admin:
            eventually(lambda: {node.id for node in admin.describe_cluster().nodes} == {1, 2}, 60)
        assert b"kafka_server" in urlopen(metrics, timeout=30).read()
        os.kill(pids[1], signal.SIGTERM)
        ended = _line(process, "broker 1 has ended")
        assert "with code 0; `barnabas up --config" in ended
        # Where clients know it, though the system chose the port.
        again = [sys.executable, "-m", "barnabas.cli.main", *ended.split("`")[1].split()[1:]]
        with subprocess.Popen(again, stdout=subprocess.PIPE, text=True) as by_hand:
            said = _line(by_hand, "listening on ")
            by_hand.terminate()
        assert said.split()[2].rstrip(",") == nodes[1].split()[3].rstrip(",")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_options_of_one_broker_do_not_go_with_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--brokers", "3", "--config", "x"]) == 2
    assert "--config: not with --brokers" in capsys.readouterr().err


def test_each_node_of_a_cluster_needs_a_port_for_its_metrics_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--brokers", "3", "--metrics", "127.0.0.1:0"]) == 2
    assert "with --brokers give a port" in capsys.readouterr().err
    assert main(["up", "--brokers", "3", "--metrics", "0.0.0.0:9300"]) == 2
    assert "can be reached from other machines" in capsys.readouterr().err
