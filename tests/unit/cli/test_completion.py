"""What a shell is told at a TAB; without a broker."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from barnabas.cli import main as cli
from barnabas.cli.completion import SCRIPTS, candidates

NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", NOWHERE)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["co"], ["console", "consume", "config", "completion"]),
        (["topic", "de"], ["describe", "delete"]),
        (["group", "offsets", ""], ["reset", "import", "delete"]),
        (["topic", "create", "flights", "--if"], ["--if-not-exists"]),
        (["consume", "flights", "-o", ""], ["human", "json", "raw", "hex"]),
        (["consume", "flights", "--key-as", "b"], ["base64"]),
        (["consume", "flights", "--key-as=b"], ["--key-as=base64"]),
        (["consume", "flights", "--value-as", "p"], ["protobuf:"]),
        (["consume", "-X", "max.poll.r"], ["max.poll.records="]),
        (["produce", "t", "-X", "linger"], ["linger.ms="]),
        (["config", "get", "b"], ["broker"]),
        (["config", "get", "broker", "d"], ["default"]),
        (["config", "set", "topic", "t", "retention.m"], ["retention.ms="]),
        (["config", "unset", "topic", "t", "retention.m"], ["retention.ms"]),
        (["config", "set", "broker", "1", "log.retention.h"], ["log.retention.hours="]),
        (["topic", "create", "t", "--set", "cleanup"], ["cleanup.policy="]),
        (["log", "dump", "dat"], ["__files__"]),
        (["topic", "list", "--config", ""], ["__files__"]),
        (["completion", "z"], ["zsh"]),
        (["topic", "describe", ""], []),
        (["nonsense", ""], []),
    ],
)
def test_a_word_is_completed_from_the_parser(words: list[str], found: list[str]) -> None:
    assert candidates(words) == found


def test_options_are_offered_by_their_long_names() -> None:
    offered = candidates(["group", "describe", "-"])

    assert "--bootstrap-servers" in offered
    assert "-b" not in offered
    assert "-X" in offered


def test_words_may_look_like_options_of_completion_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "--words", "--", "consume", "--from", "-5m", "--fol"]) == 0
    assert capsys.readouterr().out == "--follow\n"


def test_without_a_shell_the_shells_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_understood_by_its_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    assert cli.main(["completion", shell]) == 0

    checked = subprocess.run(
        [program, "-n", "/dev/stdin"], input=capsys.readouterr().out, capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_gets_the_words_as_typed() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    # A stand-in for the command prints what it was asked; the last word is empty, as after a space.
    script = f"""
barnabas() {{ printf '%s|' "$@"; }}
{SCRIPTS["bash"]}
COMP_WORDS=(barnabas topic describe "")
COMP_CWORD=3
_barnabas
printf '%s' "${{COMPREPLY[0]}}"
"""
    asked = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)

    assert asked.stdout == "completion|--words|--|topic|describe||"
