"""`barnabas up --secure`: one command, and a client that has its settings copied is let in; no other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Producer
from barnabas.cli import main as cli
from barnabas.config.properties_file import parse_properties, read_properties
from barnabas.errors import KafkaError, SaslAuthenticationError, TopicAuthorizationError


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[list[str]]:
    """Run it; gives the lines that it has printed, up to the last of what it tells at the start."""
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--secure", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--data", str(folder / "data"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if "acl add" in line or "the administrator's settings are in" in line:
                break
        yield lines
    finally:
        process.terminate()
        said = process.communicate(timeout=60)[1]
    assert lines, said


def printed(lines: list[str]) -> dict[str, str]:
    """The settings among what was printed: what stands between the two empty lines."""
    first, second = (number for number, line in enumerate(lines) if line == "\n")
    return parse_properties("".join(lines[first:second]))


def nodes(settings: dict[str, Any]) -> int:
    with AdminClient({"default.api.timeout.ms": 10_000, **settings}) as admin:
        return len(admin.describe_cluster().nodes)


def test_what_it_prints_lets_the_administrator_in_and_nobody_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "data-secure"
    with up(tmp_path) as lines:
        admin = printed(lines)
        assert admin == read_properties(str(made / "admin.properties"))
        assert nodes(admin) == 1
        servers = admin["bootstrap.servers"]
        with pytest.raises(KafkaError):
            nodes({"bootstrap.servers": servers, "default.api.timeout.ms": 1000})
        with pytest.raises(SaslAuthenticationError):
            nodes({**admin, "sasl.jaas.config": admin["sasl.jaas.config"].replace('password="', 'password="x')})
        # What it says to do next, with one who may do what she is allowed to.
        (tmp_path / "password").write_text("of-alice\n")
        options = ["--config", str(made / "admin.properties")]
        assert cli.main(["user", "add", "alice", "--password-file", str(tmp_path / "password"), *options]) == 0
        allowed = ["--principal", "User:alice", "--operation", "all", "--topic", "orders"]
        assert cli.main(["acl", "add", *allowed, *options]) == 0
        capsys.readouterr()
        alice = {**admin, "sasl.jaas.config": 'ScramLoginModule required username="alice" password="of-alice";'}
        with Producer({**alice, "max.block.ms": 10_000}) as producer:
            producer.send("orders", b"hers").result()
            with pytest.raises(TopicAuthorizationError):
                producer.send("others", b"not hers").result()

    assert {path.stat().st_mode & 0o777 for path in made.iterdir()} == {0o600}
    assert made.stat().st_mode & 0o777 == 0o700

    # Started again, without its data even, it is the one that clients know; the password is not told once more.
    shutil.rmtree(tmp_path / "data")
    with up(tmp_path) as lines:
        again = read_properties(str(made / "admin.properties"))
        assert {name for name in admin if admin[name] != again[name]} <= {"bootstrap.servers"}
        assert nodes(again) == 1
        assert "password" not in "".join(lines)


@pytest.mark.slow
def test_a_password_that_was_changed_stays_changed(tmp_path: Path) -> None:
    file = tmp_path / "data-secure" / "admin.properties"
    with up(tmp_path):
        (tmp_path / "password").write_text("another\n")
        change = ["user", "set-password", "admin", "--password-file", str(tmp_path / "password")]
        assert cli.main([*change, "--config", str(file)]) == 0
    with up(tmp_path):
        old = read_properties(str(file))
        with pytest.raises(SaslAuthenticationError):
            nodes(old)
    # Who has lost it deletes the file: this machine's operator is given a new one.
    file.unlink()
    with up(tmp_path) as lines:
        assert nodes(printed(lines)) == 1


@pytest.mark.parametrize(
    "setting", ["listeners=PLAINTEXT://:9092", "ssl.client.auth=none", "authorizer.class.name=standard"]
)
def test_settings_of_the_same_things_are_refused(
    setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["up", "--secure", "--data", str(tmp_path / "data"), "--set", setting]) == 2
    said = capsys.readouterr().err
    assert "--secure" in said
    assert setting.partition("=")[0] in said
    assert not (tmp_path / "data-secure").exists()


def test_files_that_are_spoilt_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "data-secure"
    made.mkdir()
    (made / "authority.pem").write_text("nothing")
    (made / "authority.key").write_text("nothing")
    assert cli.main(["up", "--secure", "--data", str(tmp_path / "data")]) == 2
    assert f"{made} cannot be used" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kafkas_own_tools_take_the_administrators_file(tmp_path: Path) -> None:
    from tests.peers.foreign_programs import CannotBuildError
    from tests.peers.java_tools import JavaTools

    file = tmp_path / "data-secure" / "admin.properties"
    try:
        tools = JavaTools()
    except CannotBuildError as missing:
        pytest.skip(str(missing))
    with up(tmp_path), tools as java:
        servers = read_properties(str(file))["bootstrap.servers"]
        where = ("--bootstrap-server", servers, "--command-config", str(file))
        made = java.run("org.apache.kafka.tools.TopicCommand", *where, "--create", "--topic", "orders")
        assert made.code == 0, made.err
        assert java.run("org.apache.kafka.tools.TopicCommand", *where, "--list").out.split() == ["orders"]
