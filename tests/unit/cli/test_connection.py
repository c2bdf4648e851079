"""Which broker a command talks to, with which settings, and what it says when there is none."""

from __future__ import annotations

import argparse
import io
import logging
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from barnabas.cli import main as cli
from barnabas.cli.connection import ENVIRONMENT, UnreachableError, check_reachable, client_settings
from barnabas.cli.logs import QUIET_SECONDS, NoRepeats
from barnabas.cli.output import print_table
from barnabas.cli.signals import StopSignals


def options(*settings: str, servers: str | None = None, config: Path | None = None) -> argparse.Namespace:
    return argparse.Namespace(
        bootstrap_servers=servers, settings=list(settings), config=None if config is None else str(config)
    )


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nacks=1\nmax.poll.records=7\nclient.id=mine\n")
    return path


def test_the_broker_comes_from_the_nearest_place_that_names_it(
    properties: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    places = [options(), options(config=properties), options("bootstrap.servers=x:1", config=properties)]
    assert [client_settings(args, "admin")["bootstrap.servers"] for args in places] == [
        *("localhost:9092", "file:1", "x:1"),
    ]

    monkeypatch.setenv(ENVIRONMENT, "environment:1")
    places = [options(), options(config=properties), options(servers="b:1", config=properties)]
    assert [client_settings(args, "admin")["bootstrap.servers"] for args in places] == [
        *("environment:1", "file:1", "b:1"),
    ]


def test_a_file_for_all_clients_gives_each_what_concerns_it(properties: Path) -> None:
    common = {"bootstrap.servers": "file:1", "client.id": "mine"}

    assert client_settings(options(config=properties), "admin") == common
    assert client_settings(options(config=properties), "producer") == {**common, "acks": "1"}
    assert client_settings(options(config=properties), "consumer") == {**common, "max.poll.records": "7"}


def test_what_is_given_holds_against_the_commands_own_defaults(properties: Path) -> None:
    args = options("client_id=given", config=properties)

    settings = client_settings(args, "consumer", {"client.id": "own", "max.poll.records": 5000, "fetch.min.bytes": 2})

    assert (settings["client.id"], settings["max.poll.records"], settings["fetch.min.bytes"]) == ("given", "7", 2)


def test_a_wrong_setting_is_said_before_the_broker_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["cluster"], ["consume", "t"], ["produce", "t"]):
        assert cli.main([*command, "-b", "127.0.0.1:1", "-X", "linger.sm=1"]) == 2
        assert "'linger.sm' is not a setting" in capsys.readouterr().err


def test_the_servers_may_be_a_variable_of_a_config_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_SERVER", "127.0.0.1")
    settings = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }

    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1 \("):
        check_reachable("${env:APP_SERVER}:1", timeout=20.0, settings=settings)


def test_something_that_listens_and_is_no_broker_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        with pytest.raises(UnreachableError, match=rf"no Kafka broker answers at 127.0.0.1:{port} \(no answer within"):
            check_reachable(f"127.0.0.1:{port}", timeout=0.2)


def test_all_servers_that_were_tried_are_named() -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1 \(Connection refused\); localhost:2 \("):
        check_reachable("127.0.0.1:1,localhost:2", timeout=20.0)


def test_the_log_says_the_same_thing_once_in_a_while() -> None:
    news = NoRepeats()

    def said(text: str, at: float) -> bool:
        record = logging.LogRecord("barnabas", logging.WARNING, "", 0, text, None, None)
        record.created = at
        return news.filter(record)

    assert [said("gone", 100.0), said("gone", 101.0), said("other", 101.0)] == [True, False, True]
    assert said("gone", 100.0 + QUIET_SECONDS)


def test_the_first_signal_stops_and_the_second_interrupts() -> None:
    stopped: list[int] = []
    before = signal.getsignal(signal.SIGTERM)

    with StopSignals(lambda: stopped.append(1)) as signals:
        assert signals.code == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stopped, signals.code) == ([1], 143)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)

    assert signal.getsignal(signal.SIGTERM) is before


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("has_rich", [True, False])
def test_a_table_in_a_terminal_has_the_same_text_with_and_without_rich(
    has_rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")

    print_table([{"topic": "[bold]x", "endOffset": 12}], ("topic", "endOffset"))

    assert [line.split() for line in screen.getvalue().splitlines()] == [["TOPIC", "END-OFFSET"], ["[bold]x", "12"]]


def test_a_command_leaves_the_log_of_the_program_around_it_alone(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("barnabas")
    before = logger.level, list(logger.handlers), logger.propagate
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"

        assert cli.main(["topic", "list", "-b", address]) == 1
        assert cli.main(["topic", "list", "--verbose", "-b", address]) == 1

    assert "barnabas topic: " in capsys.readouterr().err
    assert (logger.level, list(logger.handlers), logger.propagate) == before
