"""`barnabas`: finds the command, loads its module, runs it."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Command → (its module in this package, what it does). A module has `add_parser(subparsers)` and `run(args) -> int`.
COMMANDS = {
    "up": ("up", "start a broker in the foreground"),
    "decode": ("decode", "show the bytes of a Kafka message as JSON"),
}

_USAGE = """\
usage: barnabas COMMAND [OPTION]...

The Kafka system in Python.

commands:
{commands}

`barnabas COMMAND --help` explains one; `barnabas --version` tells the version.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; gives the exit code: 0, 1 (failed) or 2 (wrong usage)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_USAGE.format(commands="\n".join(f"  {name:10}{about}" for name, (_, about) in COMMANDS.items())), end="")
        return 0 if arguments else 2
    if arguments[0] in ("--version", "-V"):
        from barnabas import __version__

        print(f"barnabas {__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        return _unknown(arguments[0])
    return _run(arguments)


def _run(arguments: list[str]) -> int:
    from barnabas.errors import KafkaError, UsageError

    module = import_module(f"barnabas.cli.{COMMANDS[arguments[0]][0]}")
    parsed = _parse(module, arguments)
    try:
        code: int | None = module.run(parsed)
        return code or 0
    except KafkaError as problem:
        sys.stderr.write(f"barnabas {arguments[0]}: {problem}\n")
        return 2 if isinstance(problem, UsageError) else 1
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing more may be written, not even at exit.
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130


def _parse(module: Any, arguments: list[str]) -> Any:
    # argparse takes a tenth of a broker's start; a command that is in a hurry reads plain options itself.
    quick = getattr(module, "parse_plain", None)
    parsed = quick(arguments[1:]) if quick is not None else None
    if parsed is None:
        import argparse

        parser = argparse.ArgumentParser(prog="barnabas", description="The Kafka system in Python.")
        module.add_parser(parser.add_subparsers(metavar="COMMAND", required=True))
        parsed = parser.parse_args(arguments)
    return parsed


def _unknown(command: str) -> int:
    import difflib

    nearest = difflib.get_close_matches(command, COMMANDS, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; there are: {', '.join(COMMANDS)}"
    sys.stderr.write(f"barnabas: there is no command {command!r}{hint}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
