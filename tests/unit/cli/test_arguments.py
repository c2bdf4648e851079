"""What people may write on the command line, and what they are told when it makes no sense."""

from __future__ import annotations

import argparse
from importlib import import_module

import pytest

from barnabas.cli import main as cli
from barnabas.cli.arguments import Parser, join_negative_values, partition_numbers, unescaped
from barnabas.cli.named_values import named_values
from barnabas.errors import ConfigError

LINES_OF_A_SCREEN = 24
LINES_OF_A_PAGE = 46


def parser_of(command: str) -> Parser:
    parser = Parser(prog="barnabas")
    import_module(f"barnabas.cli.{cli.COMMANDS[command][0]}").add_parser(parser.add_subparsers())
    return parser


@pytest.mark.parametrize(
    ("text", "numbers"), [("0", [0]), ("3,1", [1, 3]), ("0,2-4", [0, 2, 3, 4]), ("1-2, 2-3", [1, 2, 3])]
)
def test_partitions_are_numbers_and_ranges(text: str, numbers: list[int]) -> None:
    assert partition_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "x", "-1", "2-", "4-2", "0-9999999999", "1,,2"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        partition_numbers(text)


def test_settings_are_names_and_values_in_which_equals_signs_may_stand() -> None:
    assert named_values(["a=1", " b = x=y", "c="], "-X") == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(ConfigError, match=r"-X linger\.ms: it must be NAME=VALUE"):
        named_values(["linger.ms"], "-X")


def test_escapes_stand_for_characters() -> None:
    assert unescaped(r"\t\n\\n\x41\q") == "\t\n\\nA\\q"


def test_negative_values_are_no_options() -> None:
    given = ["consume", "t", "--from", "-5m", "--to=-10", "-n", "-1", "--shift-by", "-3", "--exit", "-X", "a=-1"]

    joined = join_negative_values(given)

    assert joined == [
        *("consume", "t", "--from=-5m", "--to=-10", "-n", "-1", "--shift-by=-3", "--exit", "-X", "a=-1"),
    ]


def test_the_help_fits_a_screen_and_begins_with_the_three_commands_to_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0

    shown = capsys.readouterr().out
    assert len(shown.splitlines()) <= LINES_OF_A_SCREEN
    assert max(map(len, shown.splitlines())) <= 80
    beginning = shown.partition("commands:")[0]
    assert [word for word in ("barnabas up", "barnabas produce", "barnabas consume") if word in beginning] == [
        *("barnabas up", "barnabas produce", "barnabas consume"),
    ]


@pytest.mark.parametrize("command", [name for name in cli.COMMANDS if name not in ("up", "decode")])
def test_the_help_of_every_command_is_a_page(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    parsers = [parser_of(command)]
    while parsers:
        parser = parsers.pop()
        lines = parser.format_help().splitlines()
        assert len(lines) <= LINES_OF_A_PAGE
        for action in parser._actions:
            assert action.help or not action.option_strings, f"{parser.prog} {action.option_strings} has no help"
            if isinstance(action, argparse._SubParsersAction):
                parsers.extend(action.choices.values())


def test_wrong_usage_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["consume", "flights", "--count", "none"])

    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "barnabas consume: argument -n/--count: 'none' must be a whole number of at least 1 "
        "(see barnabas consume --help)\n"
    )


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["topics"]) == 2
    assert "did you mean 'topic'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--from", "yesterday"], "'yesterday' is no place in a topic"),
        (["--to", "5", "--follow"], "--follow waits for more and --to ends"),
        (["-g", "g", "-p", "0"], "-p and --group exclude each other"),
        (["-g", "g", "--from", "7"], "a group goes on from its committed offsets"),
        (["-f", "%q"], "there is no %q"),
    ],
)
def test_consume_refuses_what_contradicts_itself(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["consume", "flights", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_an_unreachable_broker_is_named_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["topic", "list", "-b", "127.0.0.1:1"]) == 1

    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "127.0.0.1:1 (Connection refused)" in errors
    assert "`barnabas up`" in errors
