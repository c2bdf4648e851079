"""What the commands' arguments have in common: the parser, the connection's options, and values that people write."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

_HELP_COLUMN = 30
#: The forms of what commands print; YAML needs the extra `console`.
FORMS = ("human", "json", "yaml")
_NEGATIVE_VALUE = re.compile(r"-\d")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that fits a screen: options stand in the list only, each with its value once."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_HELP_COLUMN)

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None,
    ) -> str:
        actions = list(actions)
        positionals = [action for action in actions if not action.option_strings]
        # With an empty prefix argparse is only putting the name of a subcommand together.
        if usage is None and prefix != "" and len(positionals) < len(actions):
            names = [self._format_args(a, self._get_default_metavar_for_positional(a)) for a in positionals]
            usage = " ".join(["%(prog)s", "[OPTION]...", *names])
        return super()._format_usage(usage, actions, groups, prefix)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{"formatter_class": Help, "allow_abbrev": False, **settings})

    #: What was given to the command: all of it, for the message about what is wrong with a part.
    given: ClassVar[list[str]] = []

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and name the part of the command to which something does not belong."""
        Parser.given = list(args or ())
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            parser = _innermost(self, Parser.given)
            what = "unknown option" if rest[0].startswith("-") else "more than it takes:"
            parser.error(f"{what} {' '.join(rest)}" + _nearest_option(parser, rest[0]))
        return parsed

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, with what was probably meant, and end with code 2."""
        from barnabas.cli.kafka_script_options import equivalent
        from barnabas.cli.output import printable

        command = Parser.given[0] if Parser.given else ""
        meant = equivalent(command, Parser.given[1:], set(self._option_string_actions))
        text = meant or _plain_choice(self, message)
        sys.stderr.write(f"{self.prog}: {printable(text)} (see {self.prog} --help)\n")
        sys.exit(2)


#: What `add_subparsers` returns: where commands, or the parts of one, are added.
Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"


def _innermost(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.ArgumentParser:
    """Return the parser of the part of the command that was reached."""
    for argument in arguments:
        for action in parser._subparsers._group_actions if parser._subparsers is not None else ():
            if argument in (action.choices or {}):
                return _innermost(action.choices[argument], arguments[1:])  # type: ignore[index]
        arguments = arguments[1:]
    return parser


def _nearest_option(parser: argparse.ArgumentParser, given: str) -> str:
    import difflib

    nearest = difflib.get_close_matches(given.partition("=")[0], parser._option_string_actions, n=1)
    return f"; did you mean {nearest[0]}?" if nearest and given.startswith("-") else ""


def _plain_choice(parser: argparse.ArgumentParser, message: str) -> str:
    """Argparse's sentence about a wrong choice, with the nearest right one instead of a long list first."""
    import difflib

    match = re.match(r"argument (\S+): invalid choice: '(.*?)' \(choose from (.*)\)$", message, re.DOTALL)
    if match is None:
        return message
    choices = [choice.strip("' ") for choice in match[3].split(",")]
    nearest = difflib.get_close_matches(match[2], choices, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    what = f"there is no `{parser.prog} {match[2]}`" if match[1] == "ACTION" else f"{match[1]} {match[2]!r} is unknown"
    return f"{what}{hint} There are {', '.join(choices)}" if hint else f"{what}; there are {', '.join(choices)}"


def join_negative_values(arguments: list[str]) -> list[str]:
    """Return the arguments with `--from -5m` as `--from=-5m`, for argparse takes the first for two options."""
    joined: list[str] = []
    for argument in arguments:
        if _NEGATIVE_VALUE.match(argument) and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def add_command(subparsers: Subparsers, name: str, about: str, *, examples: str = "") -> Parser:
    """Return a command, or one of its parts, with its help."""
    epilog = f"examples:\n{examples}" if examples else None
    return subparsers.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=epilog)


def add_connection(parser: argparse.ArgumentParser, forms: tuple[str, ...] = FORMS) -> None:
    """Add the options of every command that asks a broker, and prints what it answers."""
    add_output(parser, forms)
    add_client_options(parser)


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which cluster, and how to connect to it."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-b",
        "--bootstrap-servers",
        metavar="SERVERS",
        help="host:port,... to start from (else $BARNABAS_BOOTSTRAP_SERVERS, else localhost:9092)",
    )
    group.add_argument(
        "-X", dest="settings", metavar="NAME=VALUE", action="append", default=[], help="any of Kafka's client settings"
    )
    group.add_argument("--config", metavar="FILE", help="a file of client settings, like Kafka's client.properties")
    group.add_argument("-v", "--verbose", action="store_true", help="say on stderr what the client does")


def add_output(parser: argparse.ArgumentParser, forms: tuple[str, ...] = FORMS) -> None:
    """Add the option that chooses the form of the output."""
    parser.add_argument("-o", "--output", choices=forms, default=forms[0], help=f"{'|'.join(forms)}", metavar="FORM")


def partition_numbers(text: str) -> list[int]:
    """Partitions as people write them: `0,2-4`."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise argparse.ArgumentTypeError(f"{text!r} must be partitions such as 0 or 0,2-4")
        low, high = int(first), int(last or first)
        if high < low or high - low > 1_000_000:
            raise argparse.ArgumentTypeError(f"{text!r}: {part} is no range of partitions")
        found.update(range(low, high + 1))
    return sorted(found)


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def not_negative(text: str) -> int:
    """Return a whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 0")
    return int(text)


def unescaped(text: str) -> str:
    r"""Return the text with `\n`, `\t`, `\r`, `\0`, `\\` and `\xNN` as the characters they stand for."""
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 3 else _ESCAPES.get(code, match[0])
