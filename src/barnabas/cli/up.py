"""`barnabas up`: a broker in the foreground."""

from __future__ import annotations

import gc
import os
import sys

from barnabas.cli.broker_settings import Options, cluster_id_of_environment, settings
from barnabas.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from barnabas.broker.config import Listener
    from barnabas.broker.operator_log import OperatorLog
    from barnabas.broker.runner import RequestLogOptions
    from barnabas.broker.security.scram_users import Alterations, ScramUsers
    from barnabas.cli.arguments import Subparsers
    from barnabas.cli.secure import Secured

_EPILOG = """\
Without --config, the broker listens on 127.0.0.1:9092 and keeps its data in ./barnabas-data.
It prints one line when it is ready, `listening on HOST:PORT, data in DIRECTORY`, and ends cleanly on Ctrl-C or SIGTERM.
"""


_VALUES = {
    "--listen": "listen",
    "--data": "data",
    "--config": "config",
    "--log-format": "log_format",
    "--log-level": "log_level",
    "--metrics": "metrics",
    "--request-log": "request_log",
}
_FLAGS = {
    "--allow-remote": "allow_remote",
    "--console": "console",
    "--environment": "environment",
    "--no-browser": "no_browser",
    "--secure": "secure",
    "--until-stdin-ends": "until_stdin_ends",
}


def parse_plain(arguments: list[str]) -> Options | None:
    """Options in their plain form, `--name value`; None for anything else, which argparse then explains."""
    options = Options()
    rest = iter(arguments)
    for argument in rest:
        if argument in _FLAGS:
            setattr(options, _FLAGS[argument], True)
            continue
        value = next(rest, "-")
        if value.startswith("-"):
            return None
        if argument in _VALUES:
            setattr(options, _VALUES[argument], value)
        elif argument == "--set":
            options.set.append(value)
        elif argument == "--add-scram":
            options.add_scram.append(value)
        else:
            return None
    return options


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    import argparse

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "up",
        help="start a broker in the foreground",
        description="Start a broker in the foreground.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="where clients connect; port 0 takes any free one")
    parser.add_argument(
        "--secure",
        action="store_true",
        help="listen on every address with TLS, logins and ACLs; makes certificates and an administrator",
    )
    parser.add_argument("--data", metavar="DIR", help="where logs and metadata lie; made if it is not there")
    parser.add_argument("--config", metavar="FILE", help="a Kafka server.properties to start from")
    parser.add_argument(
        "--environment",
        action="store_true",
        help="take KAFKA_* variables for settings, and CLUSTER_ID, as Kafka's container does",
    )
    parser.add_argument(
        "--brokers", metavar="N", type=int, help="a cluster of so many, each a process, on consecutive ports"
    )
    parser.add_argument("--controllers", metavar="N", type=int, default=1, help="how many controllers it has: 1")
    parser.add_argument(
        "--zookeeper",
        metavar="CONNECT",
        nargs="?",
        const="",
        help="a cluster whose metadata are in ZooKeeper: host:port/path, or one of its own",
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a broker setting of Kafka's; repeatable"
    )
    parser.add_argument(
        "--add-scram",
        metavar="USER",
        action="append",
        default=[],
        help="a first user, as SCRAM-SHA-256=[name=alice,password=secret]; repeatable",
    )
    parser.add_argument(
        "--metrics", metavar="HOST:PORT", help="serve metrics for Prometheus at http://HOST:PORT/metrics"
    )
    parser.add_argument(
        "--console", action="store_true", help="serve the console, a web page, from a process beside the broker"
    )
    parser.add_argument("--no-browser", action="store_true", help="with --console: print its link, and open no browser")
    parser.add_argument(
        "--log-level", metavar="LEVEL", default="INFO", help="what is logged on standard error, from this level on"
    )
    parser.add_argument("--log-format", metavar="FORM", default="text", help="its form: text or json")
    parser.add_argument("--request-log", metavar="FILE", help="write a line for each request; - is standard error")
    parser.add_argument(
        "--request-log-every", metavar="N", type=int, default=1, help="write a line for every N-th request only"
    )
    parser.add_argument(
        "--allow-remote", action="store_true", help="let other machines connect where nobody has to authenticate"
    )
    # For the embedded broker: the parent holds the other end, and when it dies this broker ends too.
    parser.add_argument("--until-stdin-ends", action="store_true", help=argparse.SUPPRESS)


def run(args: Options | argparse.Namespace) -> int:
    """Run the broker until it is told to stop. Raises KafkaError if it cannot start."""
    if args.brokers is not None or args.zookeeper is not None:
        from barnabas.cli import up_cluster

        _log_options(args)
        return up_cluster.run(args)
    # Loading code makes no garbage, and what is loaded stays: the collector need not look at it, now or later.
    gc.disable()
    from barnabas.broker import operator_log

    try:
        log = operator_log.start(*_log_options(args))
        try:
            return _run(args, log)
        finally:
            operator_log.stop(log)
    finally:
        gc.enable()


def _log_options(args: Options | argparse.Namespace) -> tuple[str, str]:
    from barnabas.broker.loggers import LEVELS
    from barnabas.broker.operator_log import FORMS

    for option, value, allowed in (
        ("--log-format", args.log_format, FORMS),
        ("--log-level", args.log_level, LEVELS),
    ):
        if value not in allowed:
            raise ConfigError(f"{option} {value}: it must be one of {', '.join(allowed)}")
    return args.log_format, args.log_level


def _run(args: Options | argparse.Namespace, log: OperatorLog) -> int:
    config, data, secured = settings(args)
    if config.node_id >= 0:
        log.name_broker(config.node_id)
    from barnabas.broker.runner import BrokerRunner, RunnerOptions, check_exposure
    from barnabas.cli.metrics_listener import metrics_listener

    if not args.allow_remote:
        check_exposure(config)
    if args.console:
        from barnabas.cli import console

        console.check_installed()

    def on_ready(bound: list[Listener]) -> None:
        listening = ", ".join(listener.address for listener in bound)
        gc.freeze()
        gc.enable()
        print(f"listening on {listening}, data in {data}", flush=True)
        if secured is not None:
            print(secured.tell(secured.server(bound[0].port)), flush=True)
        if args.console:
            client = None if secured is None else secured.admin_file
            console.start_beside(bound, client, no_browser=args.no_browser)

    options = RunnerOptions(
        stop_on_eof=sys.stdin.fileno() if args.until_stdin_ends else None,
        metrics=metrics_listener(args),
        request_log=_request_log(args),
        cluster_id=cluster_id_of_environment(os.environ) if args.environment else None,
        scram_users=_scram_users(args, secured),
        name_broker=log.name_broker,
    )
    BrokerRunner(config, data, on_ready, options).run()
    return 0


def _scram_users(args: Options | argparse.Namespace, secured: Secured | None) -> Callable[[ScramUsers], Alterations]:
    from barnabas.broker.operator_log import warn

    given: Alterations = {}
    if args.add_scram:
        from barnabas.broker.security.scram_arguments import first_users, parse_scram

        given = dict(parse_scram(text) for text in args.add_scram)

    def added(users: ScramUsers) -> Alterations:
        administrator = {} if secured is None else secured.administrator(users)
        return {**administrator, **(first_users(given, users, warn) if given else {})}

    return added


def _request_log(args: Options | argparse.Namespace) -> RequestLogOptions | None:
    from barnabas.broker.runner import RequestLogOptions

    if args.request_log_every < 1:
        raise ConfigError(f"--request-log-every {args.request_log_every}: it must be at least 1")
    if args.request_log is None:
        return None
    try:
        file = sys.stderr
        if args.request_log != "-":
            # Not closed here: it is open for as long as the broker runs.
            file = open(args.request_log, "a", buffering=1, encoding="utf-8")  # noqa: SIM115
    except OSError as problem:
        raise ConfigError(f"--request-log {args.request_log} cannot be written: {problem.strerror}") from problem
    return RequestLogOptions(lambda line: print(line, file=file), args.request_log_every, "DEBUG")
