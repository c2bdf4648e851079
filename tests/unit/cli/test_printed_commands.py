"""Commands that the command line prints for the user to run: our own parser takes them, with all that was given."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import barnabas
from barnabas.broker.local_cluster import LocalCluster
from barnabas.cli import main as cli
from barnabas.cli import up_cluster
from barnabas.cli.log import _files
from barnabas.cli.printed_command import connection_of
from barnabas.cli.produce import _partition_count
from barnabas.cli.secure import AUTHORITY, Secured
from barnabas.errors import IllegalArgumentError, KafkaTimeoutError

SOURCES = Path(barnabas.__file__).parent
_PRINTED = re.compile(r"`(barnabas [^`]*)`")
_WITH_A_VALUE = re.compile(rf"(?:`|  )barnabas (?:{'|'.join(cli.COMMANDS)}) [^`\0\n]*\0")
#: Sentences in which a command has a value that needs no quotes, and does not say all options: why.
_PLAIN = {"spark/exactly_once/decision.py": "an id that Spark has made; which of two options is the operator's to say"}


def parsed(command: str) -> argparse.Namespace:
    """What our parser makes of a printed command."""
    barnabas_word, *words = shlex.split(command)
    assert barnabas_word == "barnabas"
    found: argparse.Namespace = cli._parse(import_module(f"barnabas.cli.{cli.COMMANDS[words[0]][0]}"), words)
    return found


def printed_in(text: str) -> argparse.Namespace:
    (command,) = _PRINTED.findall(text)
    return parsed(command)


class LaunchedCluster:
    """`barnabas up` with options: the cluster that it would start, and what it starts each node with."""

    def __init__(self, patch: pytest.MonkeyPatch, *options: str) -> None:
        self.made: list[LocalCluster] = []
        self.given: argparse.Namespace = cli._parse(import_module("barnabas.cli.up"), ["up", *options])

        def start(cluster: LocalCluster) -> None:
            self.made.append(cluster)
            raise up_cluster._EndedError

        patch.setattr(LocalCluster, "start", start)
        patch.setattr(LocalCluster, "stop", lambda _cluster: None)
        patch.setattr(up_cluster.signal, "signal", lambda *_: None)
        assert up_cluster.run(self.given) == 0
        (self.cluster,) = self.made


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--listen", "0.0.0.0:19092", "--allow-remote"],
        ["--log-format", "json", "--log-level", "warning", "--metrics", "127.0.0.1:19400"],
    ],
    ids=["none", "remote", "log and metrics"],
)
def test_the_command_that_starts_a_node_again_starts_it_as_it_was(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data of a cluster"
    folder.mkdir()
    made = LaunchedCluster(monkeypatch, "--brokers", "2", "--data", str(folder), *options)
    for node_id in made.cluster.node_ids:
        again = printed_in(up_cluster._how_it_ended(made.cluster, node_id, 0, None))
        assert vars(again) == vars(parsed(shlex.join(["barnabas", "up", *made.cluster.options_of(node_id)])))
        assert (again.config, again.allow_remote) == (made.cluster.properties_of(node_id), True)
        assert (again.log_format, again.log_level) == (made.given.log_format, made.given.log_level)
        assert (again.metrics is None) == (made.given.metrics is None)


def test_the_command_that_creates_a_topic_goes_to_the_same_cluster() -> None:
    connection = ["-b", "far:9092", "--config", "my file.properties", "-X", "client.id=a b", "-X", "retries=1"]
    given = cli._parse(import_module("barnabas.cli.produce"), ["produce", "flights", *connection])

    class Client:
        def partitions_for(self, topic: str) -> Any:
            raise KafkaTimeoutError("no such topic")

        def close(self, timeout: float) -> None:
            return

    with pytest.raises(KafkaTimeoutError) as found:
        _partition_count(Client(), given)  # type: ignore[arg-type]
    again = printed_in(str(found.value))
    assert connection_of(again) == connection_of(given) == connection
    assert again.topics == ["flights"]


def test_the_command_that_lists_a_directory_names_that_one(tmp_path: Path) -> None:
    folder = tmp_path / "data; of 'mine'"
    folder.mkdir()
    with pytest.raises(IllegalArgumentError) as found:
        _files([str(folder)])
    assert printed_in(str(found.value)).directory == str(folder)


def test_the_commands_of_a_secured_broker_use_the_administrators_file(tmp_path: Path) -> None:
    folder = tmp_path / "my data"
    folder.mkdir()
    (folder / AUTHORITY).write_text("an authority", encoding="ascii")
    made = Secured(str(folder), {}, "secret", is_new=True)
    commands = [line.strip() for line in made.tell("far:9093").splitlines() if line.startswith("  barnabas ")]
    assert [parsed(command).config for command in commands] == [made.admin_file] * 2


def test_no_sentence_puts_a_value_into_a_command_by_itself() -> None:
    """`printed_command` quotes it for a shell."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)  # type: ignore[misc]
                if _WITH_A_VALUE.search(text):
                    found[str(path.relative_to(SOURCES))] = text
    assert found.keys() == _PLAIN.keys(), found
