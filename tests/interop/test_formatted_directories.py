"""`kafka-storage format` and `barnabas format` write the same, and each software starts on what the other wrote."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas import AdminClient, NewTopic
from barnabas.broker.kraft.formatter import default_levels
from barnabas.broker.log.checkpoint_files import encode_uuid
from barnabas.broker.metadata.metadata_records import decode_versioned_record
from barnabas.broker.metadata.metadata_version import NAMES
from barnabas.broker.node_process import NodeProcess
from barnabas.broker.raft.control_records import read_control_records
from barnabas.cli.main import main
from barnabas.protocol.message import Message
from barnabas.records import read_batches
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka, free_port, run_tool
from tests.peers.java_tools import JavaTools

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(apache_kafka.why_not() is not None, reason=str(apache_kafka.why_not())),
    pytest.mark.timeout(240),
]

_CLUSTER_ID = "YmFybmFiYXMtcGVlci0wMQ"
_DIRECTORY_ID = encode_uuid(bytes(range(16)))
#: Salted already, for a salt that each chooses itself would differ.
_ALICE = (
    'SCRAM-SHA-256=[name=alice,iterations=4096,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=",'
    'saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="]'
)


Start = Callable[["_Directory"], AbstractContextManager[None]]


class _Node(NamedTuple):
    """What is formatted: roles, whether its voters are static, and the options of both commands."""

    roles: str = "controller"
    has_static_voters: bool = False
    options: tuple[str, ...] = ()


_NODES = {
    "static voters": _Node(has_static_voters=True),
    "alone at first": _Node(options=("--standalone",)),
    "first of several": _Node(options=("--initial-controllers", f"100@localhost:PORT:{_DIRECTORY_ID}")),
    "both roles and a user": _Node("broker,controller", options=("--standalone", "--add-scram", _ALICE)),
}
_FORMATTED_ONLY = {
    "joins later": _Node(options=("--no-initial-controllers",)),
    "a broker": _Node("broker"),
    "release 4.0": _Node(options=("--standalone", "--release-version", "4.0")),
    "release 3.9": _Node(has_static_voters=True, options=("--release-version", "3.9")),
    "other levels": _Node(options=("--standalone", "--feature", "transaction.version=1", "--feature=group.version=0")),
    "one level of the quorum": _Node(has_static_voters=True, options=("--feature", "kraft.version=0")),
}


class _Directory:
    """A node's file and directory; the same ports for both softwares."""

    def __init__(self, folder: Path, node: _Node) -> None:
        self.node = node
        self.of_controller, self.of_broker = free_port(), free_port()
        self.options = [option.replace("PORT", str(self.of_controller)) for option in node.options]
        self.data = folder / "data"
        self.file = folder / "server.properties"
        listeners = {
            "controller": f"CONTROLLER://localhost:{self.of_controller}",
            "broker": f"PLAINTEXT://localhost:{self.of_broker}",
        }
        quorum = "controller.quorum.voters" if node.has_static_voters else "controller.quorum.bootstrap.servers"
        voters = f"100@localhost:{self.of_controller}" if node.has_static_voters else f"localhost:{self.of_controller}"
        self.settings = {
            "process.roles": node.roles,
            "node.id": "100",
            "listeners": ",".join(listeners[role] for role in node.roles.split(",")),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            quorum: voters,
        }
        folder.mkdir()
        self.file.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))

    def by_theirs(self) -> None:
        """Have `kafka-storage` format it."""
        done = run_tool("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self.file), *self.options)
        assert done.returncode == 0, done.stdout + done.stderr

    def by_ours(self) -> None:
        """Have `barnabas format` format it."""
        assert main(["format", "-t", _CLUSTER_ID, "-c", str(self.file), *self.options]) == 0

    def content(self) -> dict[str, object]:
        """Return what is in each file, but for ids and times that are each its own."""
        return {
            str(path.relative_to(self.data)): self._read(path)
            for path in sorted(self.data.rglob("*"))
            if path.is_file()
        }

    def _read(self, path: Path) -> object:
        data = path.read_bytes()
        if path.name == "meta.properties":
            found = dict(line.split("=", 1) for line in data.decode().splitlines() if not line.startswith("#"))
            return found if "--initial-controllers" in self.options else {**found, "directory.id": "chosen"}
        if path.suffix != ".checkpoint":
            return data
        quorum = [_without_chance(record.message, self.options) for record in read_control_records(data)]
        batches = (batch for batch in read_batches(data) if not batch.is_control)
        return quorum, [decode_versioned_record(bytes(record.value or b"")) for batch in batches for record in batch]


def _without_chance(message: Message, options: list[str]) -> Message:
    """Take the time of formatting out, and the directory's id where each software has chosen its own."""
    if hasattr(message, "last_contained_log_timestamp"):
        message.last_contained_log_timestamp = 0
    for voter in () if "--initial-controllers" in options else getattr(message, "voters", ()):
        voter.voter_directory_id = bytes(16)
    return message


@pytest.mark.parametrize("name", [*_NODES, *_FORMATTED_ONLY])
def test_both_commands_write_the_same(tmp_path: Path, name: str) -> None:
    node = {**_NODES, **_FORMATTED_ONLY}[name]
    theirs = _Directory(tmp_path / "node", node)
    theirs.by_theirs()
    expected = theirs.content()
    shutil.rmtree(theirs.data)
    theirs.by_ours()
    assert theirs.content() == expected


def test_a_cluster_of_each_release_is_at_the_levels_that_kafka_names(java: JavaTools) -> None:
    for name in NAMES.values():
        command = ("--bootstrap-server", "localhost:1", "version-mapping", "--release-version", name)
        done = java.run("org.apache.kafka.tools.FeatureCommand", *command)
        theirs = {name: int(level) for name, level in re.findall(r"^([a-z.]+)=(\d+)", done.out, re.MULTILINE)}
        theirs.pop("kraft.version")
        assert default_levels(name) == {name: level for name, level in theirs.items() if level}


@contextmanager
def _ours(directory: _Directory) -> Iterator[None]:
    process = NodeProcess(["--config", str(directory.file)])
    try:
        process.wait_until_ready()
        yield
    finally:
        process.stop()


@contextmanager
def _theirs(directory: _Directory) -> Iterator[None]:
    kafka = ApacheKafka(heap="256m", format_options=["--ignore-formatted", *directory.options])
    kafka.port = kafka.controller_port = directory.of_controller
    kafka.settings = {"controller.quorum.voters": "", **directory.settings}
    try:
        kafka.start()
        yield
    finally:
        kafka.stop()
        shutil.rmtree(kafka.folder, ignore_errors=True)


def _check(directory: _Directory, changes: str) -> None:
    """The quorum has its voter, the cluster its users, and a broker takes a topic."""
    with AdminClient({"bootstrap.controllers": f"localhost:{directory.of_controller}"}) as admin:
        quorum = admin.describe_metadata_quorum()
        assert [voter.replica_id for voter in quorum.voters] == [quorum.leader_id] == [100]
    if "broker" not in directory.node.roles:
        return
    with AdminClient({"bootstrap.servers": f"localhost:{directory.of_broker}"}) as admin:
        eventually(lambda: [node.id for node in admin.describe_cluster().nodes] == [100])
        assert list(admin.describe_user_scram_credentials()) == ["alice"]
        admin.create_topics([NewTopic(changes, 1, 1)])
        eventually(lambda: changes in admin.list_topics())


@pytest.mark.parametrize("name", _NODES)
@pytest.mark.parametrize(
    ("formatted_by", "first", "second"),
    [(_Directory.by_theirs, _ours, _theirs), (_Directory.by_ours, _theirs, _ours)],
    ids=["theirs, then ours starts", "ours, then theirs starts"],
)
def test_one_starts_on_what_the_other_has_formatted_and_gives_it_back(
    tmp_path: Path, name: str, formatted_by: Callable[[_Directory], None], first: Start, second: Start
) -> None:
    directory = _Directory(tmp_path / "node", _NODES[name])
    formatted_by(directory)
    with first(directory):
        _check(directory, "by-the-first")
    with second(directory):
        _check(directory, "by-the-second")
        if "broker" in directory.node.roles:
            with AdminClient({"bootstrap.servers": f"localhost:{directory.of_broker}"}) as admin:
                assert {"by-the-first", "by-the-second"} <= set(admin.list_topics())
