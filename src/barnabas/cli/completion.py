"""`barnabas completion`: scripts that complete commands in a shell.

A script asks `barnabas completion --words -- WORD...` at every TAB, so it knows each option as soon as the parser does,
and the topics and groups that the broker has at that moment.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import pairwise
from typing import Any

from barnabas.cli.arguments import Parser, Subparsers, add_command
from barnabas.errors import KafkaError

#: What the script takes for "complete the names of files".
FILES = "__files__"
#: A shell waits for an answer: a broker that is not there may take this long, in seconds.
PATIENCE = 1.0

SCRIPTS = {
    "bash": """\
# barnabas completion bash > ~/.local/share/bash-completion/completions/barnabas
_barnabas() {
    local IFS=$'\\n'
    COMPREPLY=($(barnabas completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${COMPREPLY[0]} == __files__ ]]; then
        COMPREPLY=()
        compopt -o default
    elif [[ ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}
complete -F _barnabas barnabas
""",
    "zsh": """\
#compdef barnabas
# barnabas completion zsh > a directory of $fpath, as _barnabas
_barnabas() {
    local -a found
    found=("${(@f)$(barnabas completion --words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ $found[1] == __files__ ]]; then
        _files
    elif [[ $found[1] == *= ]]; then
        compadd -S '' -a found
    else
        compadd -a found
    fi
}
compdef _barnabas barnabas
""",
    "fish": """\
# barnabas completion fish > ~/.config/fish/completions/barnabas.fish
function __barnabas_words
    set -l words (commandline -opc) (commandline -ct)
    set -l found (barnabas completion --words -- $words[2..-1] 2>/dev/null)
    if test "$found[1]" = __files__
        __fish_complete_path (commandline -ct)
    else
        string join \\n -- $found
    end
end
complete -c barnabas -f -a '(__barnabas_words)'
""",
}


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    parser = add_command(
        subparsers,
        "completion",
        "print a script that completes commands in a shell",
        examples="  source <(barnabas completion bash)\n",
    )
    parser.add_argument("shell", choices=SCRIPTS, nargs="?", metavar="SHELL", help=", ".join(SCRIPTS))
    parser.set_defaults(words=None)


def parse_plain(arguments: list[str]) -> argparse.Namespace | None:
    """Return the words that a script asks about, which are not for our own parser to read; None for anything else."""
    if arguments[:2] != ["--words", "--"]:
        return None
    return argparse.Namespace(words=arguments[2:])


def run(args: argparse.Namespace) -> int:
    """Print the script, or what may stand in the place of the last word."""
    if args.words is not None:
        for found in candidates(args.words or [""]):
            print(found)
        return 0
    if args.shell is None:
        sys.stderr.write(f"barnabas completion: name the shell: {', '.join(SCRIPTS)}\n")
        return 2
    print(SCRIPTS[args.shell], end="")
    return 0


def candidates(words: list[str]) -> list[str]:
    """Return what the last word may become, given those before it."""
    from barnabas.cli.main import COMMANDS

    if len(words) == 1:
        return [name for name in (*COMMANDS, "--help", "--version") if name.startswith(words[0])]
    if words[0] not in COMMANDS:
        return []
    parser = Parser(prog="barnabas")
    import_module(f"barnabas.cli.{COMMANDS[words[0]][0]}").add_parser(parser.add_subparsers())
    place = _Place(parser)
    for word in words[:-1]:
        place.consume(word)
    current = words[-1]
    if place.option is None and current.startswith("-") and "=" in current:
        name, _, value = current.partition("=")
        place.consume(name)
        return [f"{name}={found}" for found in _matching(_values(place.option, words), value)]
    if place.option is None and current.startswith("-"):
        return _matching(place.options(), current)
    return _matching(_values(place.option or place.positional(), words), current)


class _Place:
    """Where in a parser's grammar a row of words leads to."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._enter(parser)
        #: The option whose value comes next.
        self.option: argparse.Action | None = None

    def _enter(self, parser: argparse.ArgumentParser) -> None:
        self._actions = [action for action in parser._actions if action.help is not argparse.SUPPRESS]
        self._positionals = [action for action in self._actions if not action.option_strings]

    def consume(self, word: str) -> None:
        if self.option is not None:
            self.option = None
        elif word.startswith("-"):
            found = next((action for action in self._actions if word in action.option_strings), None)
            self.option = found if found is not None and found.nargs != 0 else None
        elif self._positionals:
            action = self._positionals[0]
            if isinstance(action, argparse._SubParsersAction):
                if word in action.choices:
                    self._enter(action.choices[word])
            elif action.nargs not in ("+", "*"):
                del self._positionals[0]

    def options(self) -> list[str]:
        # The last name of an option is its long one.
        return [action.option_strings[-1] for action in self._actions if action.option_strings]

    def positional(self) -> argparse.Action | None:
        return self._positionals[0] if self._positionals else None


def _matching(found: Iterable[str], start: str) -> list[str]:
    return [value for value in found if value == FILES or value.startswith(start)]


def _values(action: argparse.Action | None, words: list[str]) -> Iterable[str]:
    if action is None:
        return ()
    if action.choices is not None:
        return list(action.choices)
    section = _sections(words).get(action.option_strings[0] if action.option_strings else action.dest)
    if section is not None:
        from barnabas.config.config_def import definitions

        equals = "" if action.metavar == "SETTING" else "="
        return [f"{name}{equals}" for name in sorted(definitions(section).keys)]
    ask = _BY_METAVAR.get(str(action.metavar))
    return ask(words) if ask is not None else ()


def _sections(words: list[str]) -> dict[str, str]:
    """By option or positional, whose settings it takes."""
    client = {"produce": "producer", "consume": "consumer"}.get(words[0], "admin")
    kind = "broker" if words[0] == "up" or "broker" in words[2:3] else "topic"
    return {"-X": client, "--set": kind, "--unset": kind, "set": kind, "unset": kind, "names": kind}


def _topics(words: list[str]) -> Iterable[str]:
    return _ask(words, lambda admin: admin.list_topics())


def _groups(words: list[str]) -> Iterable[str]:
    return _ask(words, lambda admin: admin.list_groups())


def _encodings(_: list[str]) -> Iterable[str]:
    from barnabas.cli.record_format import ENCODINGS, MESSAGE

    return (*ENCODINGS, MESSAGE)


def _entities(words: list[str]) -> Iterable[str]:
    return {"topic": _topics, "group": _groups}.get(words[2], lambda _: ("default",))(words)


def _ask(words: list[str], question: Callable[[Any], Iterable[str]]) -> Iterable[str]:
    from barnabas.cli.connection import DEFAULT_SERVERS, ENVIRONMENT, check_reachable
    from barnabas.client.admin.admin_client import AdminClient

    servers = os.environ.get(ENVIRONMENT) or DEFAULT_SERVERS
    for option, value in pairwise(words):
        if option in ("-b", "--bootstrap-servers"):
            servers = value
    try:
        check_reachable(servers, PATIENCE)
        with AdminClient(bootstrap_servers=servers, default_api_timeout_ms=round(2000 * PATIENCE)) as admin:
            return list(question(admin))
    except KafkaError:
        # No broker, no names: a TAB is not the place for an error.
        return ()


_BY_METAVAR: dict[str, Callable[[list[str]], Iterable[str]]] = {
    "TOPIC": _topics,
    "TOPIC[:LIST]": _topics,
    "GROUP": _groups,
    "ENTITY": _entities,
    "ENCODING": _encodings,
    "FILE": lambda words: (FILES,),
    "DIR": lambda words: (FILES,),
    "PATH": lambda words: (FILES,),
}
