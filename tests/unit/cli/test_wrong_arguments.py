"""Whatever is wrong with an argument of any command: one line that says what, where and what to do; soon; no traceback.

The commands, their parts and their arguments are found in the parsers, so that a new one is tried as well.
"""

from __future__ import annotations

import argparse
import io
import logging
import re
import signal
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from barnabas import Broker
from barnabas.broker.local_cluster import LocalCluster
from barnabas.cli import main as cli
from barnabas.cli import up_cluster
from barnabas.cli.arguments import Parser
from barnabas.cli.kafka_script_options import EVERYWHERE, HABITS

#: Values that few arguments can take.
WRONG_VALUES = [
    "",
    " ",
    "-",
    "no such thing",
    "-1",
    "1.5",
    "99999999999999999999",
    "a=b=c",
    "/nonexistent/x",
    "é\udcff",
    "x:y",
]
SECONDS = 2.0


class Leaf(NamedTuple):
    """A command, or a part of one, with its parser."""

    words: tuple[str, ...]
    parser: argparse.ArgumentParser

    def __str__(self) -> str:
        return " ".join(self.words)


def leaves() -> Iterator[Leaf]:
    for command, (module, _) in cli.COMMANDS.items():
        parser = Parser(prog="barnabas")
        import_module(f"barnabas.cli.{module}").add_parser(parser.add_subparsers())
        yield from _below(("barnabas",), parser, command)


def _below(words: tuple[str, ...], parser: argparse.ArgumentParser, only: str | None = None) -> Iterator[Leaf]:
    choices = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not choices:
        yield Leaf(words[1:], parser)
    for name, part in choices[0].items() if choices else ():
        if only in (None, name):
            yield from _below((*words, name), part)


LEAVES = list(leaves())
#: Commands that need a broker to find out what is wrong; the others are wrong by themselves.
CONNECTED = [leaf for leaf in LEAVES if "--bootstrap-servers" in leaf.parser._option_string_actions]


def positionals(leaf: Leaf) -> list[str]:
    """A value for each argument that must be there."""
    found = []
    for action in leaf.parser._get_positional_actions():
        if action.nargs in (None, "+"):
            found.append(next(iter(action.choices)) if action.choices else "x")
    return found


def required(leaf: Leaf) -> list[str]:
    """The options that must be there, with a value."""
    actions = [action for action in leaf.parser._actions if action.required and action.option_strings]
    # Of several of which one must be there, the first.
    actions += [group._group_actions[0] for group in leaf.parser._mutually_exclusive_groups if group.required]
    return [f"{action.option_strings[-1]}=1" if action.nargs != 0 else action.option_strings[-1] for action in actions]


@pytest.fixture(autouse=True)
def _starts_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    """`up` with good arguments would run, and `produce` would read the terminal."""
    monkeypatch.setattr("barnabas.broker.runner.BrokerRunner.run", lambda self: self._loop.close())
    monkeypatch.setattr("barnabas.broker.local_cluster.LocalCluster.start", _ended)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    # At the usual port another test's broker may answer.
    monkeypatch.setattr("barnabas.cli.connection.DEFAULT_SERVERS", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    # A handler of the test before writes to what that test has captured.
    monkeypatch.setattr(logging.getLogger("barnabas"), "handlers", [])
    # A cluster that is about to start answers signals.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _ended(cluster: LocalCluster) -> None:
    raise up_cluster._EndedError


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def once(arguments: tuple[str, ...]) -> tuple[float, int]:
        started = time.monotonic()
        try:
            code = cli.main(list(arguments))
        except SystemExit as end:
            code = int(end.code or 0)
        return time.monotonic() - started, code

    def call(*arguments: str) -> tuple[int, str, str]:
        took, code = once(arguments)
        said = capsys.readouterr()
        if took >= SECONDS:
            # The machine may have been busy with something else.
            took = min(took, once(arguments)[0])
            capsys.readouterr()
        assert took < SECONDS, f"{arguments} took {took:.1f} s"
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return call


def check_refusal(code: int, errors: str, words: tuple[str, ...], place: str = "") -> None:
    lines = [line for line in errors.splitlines() if not line.startswith("[")]
    assert code in (1, 2), errors
    assert len(lines) == 1, errors
    assert lines[0].startswith(f"barnabas {words[0]}")
    assert len(lines[0]) > len(f"barnabas {words[0]}: ") + 10
    assert place in lines[0]


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_an_unknown_option_is_named_with_the_help_of_the_part_it_was_given_to(run: Run, leaf: Leaf) -> None:
    if leaf.words == ("completion",):
        pytest.skip("it reads the words of others")
    code, _, errors = run(*leaf.words, *positionals(leaf), *required(leaf), "--no-such-option")
    check_refusal(code, errors, leaf.words, "--no-such-option")
    assert f"(see barnabas {leaf} --help)" in errors


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if positionals(leaf)], ids=str)
def test_an_argument_that_is_missing_is_named(run: Run, leaf: Leaf) -> None:
    code, _, errors = run(*leaf.words, *required(leaf))
    check_refusal(code, errors, leaf.words, "required")


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if leaf.parser._get_positional_actions()], ids=str)
def test_one_argument_too_many_is_named(run: Run, leaf: Leaf) -> None:
    takes_any = any(action.nargs in ("*", "+") for action in leaf.parser._get_positional_actions())
    if takes_any or leaf.words == ("completion",):
        pytest.skip("it takes as many as there are")
    optional = [action for action in leaf.parser._get_positional_actions() if action.nargs == "?"]
    extra = ["surplus"] * (1 + len(optional))
    code, _, errors = run(*leaf.words, *positionals(leaf), *extra, *required(leaf))
    check_refusal(code, errors, leaf.words, "surplus")


def options() -> Iterator[Any]:
    for leaf in LEAVES:
        for action in leaf.parser._actions:
            if action.option_strings and not isinstance(action, argparse._HelpAction):
                yield pytest.param(leaf, action, id=f"{leaf} {action.option_strings[-1]}")


# The request log stays open until the process ends, which here is not when `up` does.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("leaf", "action"), list(options()))
def test_an_option_without_its_value_or_with_one_it_cannot_take_is_named(
    run: Run, leaf: Leaf, action: argparse.Action
) -> None:
    option = action.option_strings[-1]
    given = [*leaf.words, *positionals(leaf), *(text for text in required(leaf) if not text.startswith(option))]
    if action.nargs == 0:
        code, _, errors = run(*given, f"{option}=x") if option.startswith("--") else run(*given, "--no-such-option")
        check_refusal(code, errors, leaf.words, option)
        return
    if action.nargs != "?":
        code, _, errors = run(*given, option)
        check_refusal(code, errors, leaf.words, option)
    if leaf in CONNECTED:
        given += ["-b", "127.0.0.1:1"]
    for value in WRONG_VALUES:
        code, _, errors = run(
            *given, f"{option}={value}" if option.startswith("--") else f"{option}{value}" if value else option
        )
        # Many options take any text; then it is the broker that is not there, or the thing that is named.
        if code != 0:
            check_refusal(code, errors, leaf.words)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(in_process=True) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("leaf", [leaf for leaf in CONNECTED if positionals(leaf)], ids=str)
def test_what_a_running_broker_does_not_have_is_named(run: Run, servers: str, leaf: Leaf) -> None:
    if leaf.words[0] in ("produce", "consume") or leaf.words[1:] == ("create",):
        pytest.skip("it makes what is missing, or waits for it")
    for value in ("missing", "999", "x:y", "é\udcff"):
        given = [value for _ in positionals(leaf)]
        for index, action in enumerate(leaf.parser._get_positional_actions()):
            if action.choices:
                given[index] = next(iter(action.choices))
        code, out, errors = run(*leaf.words, *given, *required(leaf), "-b", servers)
        assert (code == 0 and out) or code in (1, 2), (given, out, errors)
        if code:
            assert errors.splitlines()[-1].startswith(f"barnabas {leaf.words[0]}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["topic", "lst"], "there is no `barnabas topic lst`; did you mean list?"),
        (["topic", "create", "--topic", "z"], "--topic is not an option here: name the topic itself"),
        (["topic", "--list"], "--list is not an option here: barnabas topic list"),
        (["consume", "-t", "news"], "-t is not an option here: name the topic itself: barnabas consume TOPIC"),
        (["consume", "-C"], "-C is not an option here: barnabas consume TOPIC"),
        (["-L"], "-L is not an option here: barnabas cluster"),
        (["topic", "list", "--bootstrap-server", "a:1"], "--bootstrap-server is not an option here: -b HOST:PORT"),
        (["config", "--alter", "--entity-type", "topics"], "--alter is not an option here: barnabas config set"),
        (["group", "--describe", "--group", "g"], "--describe is not an option here: barnabas group describe GROUP"),
        (["topic", "describe", "t", "--outptu", "json"], "unknown option --outptu json; did you mean --output?"),
        (["topci"], "there is no command 'topci'; did you mean 'topic'?"),
        (["quota", "set", "--user", "a", "producer_byte_rat=5"], "did you mean 'producer_byte_rate'?"),
        (["quota", "set", "producer_byte_rate=5"], "name who the quota is for"),
        (["quota", "set", "--user", "a", "producer_byte_rate=fast"], "it must be a number above 0"),
        (["feature", "set", "group.version=x"], "a level is a whole number"),
    ],
)
def test_habits_of_other_tools_and_slips_get_what_is_meant(run: Run, arguments: list[str], says: str) -> None:
    code, _, errors = run(*arguments)
    assert code == 2
    assert says in errors
    assert errors.count("\n") == 1


def test_a_broker_that_the_cluster_does_not_have_is_said_at_once(run: Run, servers: str) -> None:
    code, _, errors = run("config", "get", "broker", "7", "-b", servers)
    assert (code, errors) == (1, "barnabas config: the cluster has no broker 7; it has 1\n")
    code, _, errors = run("log-dir", "--broker", "7", "-b", servers)
    assert code == 2
    assert re.search(r"--broker 7: the cluster has no such broker; it has 1", errors)


def test_every_equivalent_that_is_named_is_a_command() -> None:
    named = {
        tuple(text.split())
        for table in (*HABITS.values(), EVERYWHERE)
        for meant in table.values()
        for text in re.findall(r"barnabas ((?:[a-z]+(?:-[a-z]+)* ?)+)", meant)
    }
    known = {leaf.words for leaf in LEAVES}
    assert named
    assert not {words for words in named if not any(words[: len(leaf)] == leaf[: len(words)] for leaf in known)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["execute"], "name either topics with --to, or a plan with --file"),
        (["execute", "t"], "t: --to must name the brokers to spread them over"),
        (["execute", "--file", "x", "--to", "1"], "leave --to and --replication-factor out"),
        (["execute", "t", "--to", "1,1"], "must be ids of brokers, each once"),
        (["cancel"], "name topics, or a plan with --file, or --all"),
        (["cancel", "t", "--all"], "name topics, or a plan with --file, or --all"),
        (["--execute"], "--execute is not an option here: barnabas topic reassign execute --file FILE"),
    ],
)
def test_a_reassignment_that_is_not_clear_is_refused(run: Run, arguments: list[str], says: str) -> None:
    code, _, errors = run("topic", "reassign", *arguments)
    assert code == 2
    assert says in errors
