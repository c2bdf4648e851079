"""`barnabas`: finds the command, loads its module, runs it."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Command → (its module in this package, what it does). A module has `add_parser(subparsers)`, and
#: `run(args) -> int`, or sets an `action` for each of its parts.
COMMANDS = {
    "up": ("up", "start a broker in the foreground"),
    "format": ("format", "format the directories of a node of a cluster"),
    "console": ("console", "serve a web page that shows a cluster"),
    "anatomy": ("anatomy", "watch what producer, consumers and broker do, step by step"),
    "top": ("top", "watch topics, groups and brokers in the terminal"),
    "topic": ("topic", "list, describe, create, delete, change and move topics"),
    "produce": ("produce", "send lines of standard input to a topic"),
    "consume": ("consume", "print the records of topics"),
    "group": ("group", "list, describe and delete groups; move their offsets"),
    "txn": ("txn", "list, describe and abort transactions"),
    "config": ("config", "show and change settings: topics, brokers, groups, client metrics"),
    "cluster": ("cluster", "show the brokers"),
    "quota": ("quota", "list, set and remove quotas of users, clients and addresses"),
    "acl": ("acl", "list, add and remove ACLs; say who may do what"),
    "user": ("user", "list, add and delete users, and set their passwords (SCRAM)"),
    "token": ("token", "list, create, renew and expire delegation tokens"),
    "log-dir": ("log_dir", "show the brokers' log directories, their sizes and problems"),
    "feature": ("feature", "list the cluster's features, and set their levels"),
    "leader": ("leader", "elect leaders of partitions anew"),
    "monitoring": ("monitoring", "print a Grafana dashboard, or alert rules for Prometheus"),
    "log": ("log", "read a partition's files, without a broker"),
    "spark": ("spark", "show where a streaming query stands against its topics"),
    "streams": ("streams", "draw and plan topologies of Kafka Streams, reset applications"),
    "decode": ("decode", "show the bytes of a Kafka message as JSON"),
    "completion": ("completion", "print a script that completes commands in a shell"),
}

#: Shown by name only in the list of commands, which has to fit a screen.
_RARE = ("anatomy", "token", "format", "feature", "leader", "monitoring", "decode", "completion")

_USAGE = """\
usage: barnabas COMMAND [OPTION]..., or barnabas --version
The Kafka system in Python. To begin with:
  barnabas up                          a broker on localhost:9092
  echo hello | barnabas produce news   send a record to the topic `news`
  barnabas consume news                print the topic, and wait for more
commands: (`barnabas COMMAND --help` explains one)
{commands}
"""

#: The exit codes of programs that a signal ended, as shells have them; success is 0, failure 1, wrong usage 2.
CLOSED_PIPE = 141
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run a command; gives the exit code: 0, 1 (failed), 2 (wrong usage), 130 (Ctrl-C) or 141 (closed pipe)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        shown = [f"  {name:12}{about}" for name, (_, about) in COMMANDS.items() if name not in _RARE]
        print(_USAGE.format(commands="\n".join([*shown, f"  and {', '.join(_RARE)}"])), end="")
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
    try:
        parsed = _parse(module, arguments)
        if getattr(parsed, "output", None) == "yaml":
            from barnabas.cli.output import use_yaml

            use_yaml()
            parsed.output = "json"
        run = getattr(module, "run", None) or parsed.action
        code: int | None = run(parsed)
        sys.stdout.flush()
        return code or 0
    except KafkaError as problem:
        _complain(arguments[0], problem)
        return 2 if isinstance(problem, UsageError) else 1
    except BrokenPipeError:
        # The reader of our output has closed it; nothing more may be written, not even at exit.
        _discard_output()
        return CLOSED_PIPE
    except OSError as problem:
        _complain(arguments[0], problem)
        _discard_output()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        # Loaded by the commands that have a client.
        if "barnabas.cli.logs" in sys.modules:
            from barnabas.cli import logs

            logs.tear_down()


def _complain(command: str, problem: BaseException) -> None:
    from barnabas.cli.output import error_line

    sys.stderr.write(f"barnabas {command}: {error_line(problem)}\n")


def _discard_output() -> None:
    import os

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _parse(module: Any, arguments: list[str]) -> Any:
    # argparse takes a tenth of a broker's start; a command that is in a hurry reads plain options itself.
    quick = getattr(module, "parse_plain", None)
    parsed = quick(arguments[1:]) if quick is not None else None
    if parsed is None:
        from barnabas.cli.arguments import Parser, join_negative_values

        parser = Parser(prog="barnabas", description="The Kafka system in Python.")
        module.add_parser(parser.add_subparsers(metavar="COMMAND", required=True))
        parsed = parser.parse_args(join_negative_values(arguments))
    return parsed


def _unknown(command: str) -> int:
    import difflib

    from barnabas.cli.kafka_script_options import equivalent

    meant = equivalent("", [command], set())
    if meant is not None:
        sys.stderr.write(f"barnabas: {meant}\n")
        return 2
    nearest = difflib.get_close_matches(command, COMMANDS, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; there are: {', '.join(COMMANDS)}"
    sys.stderr.write(f"barnabas: there is no command {command!r}{hint}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
