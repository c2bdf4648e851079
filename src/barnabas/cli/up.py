"""`barnabas up`: a broker in the foreground."""

from __future__ import annotations

import gc
import os
import sys

from barnabas.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from barnabas.broker.config import BrokerConfig, Listener
    from barnabas.broker.runner import RequestLogOptions

DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_DATA = "barnabas-data"

_EPILOG = """\
Without --config, the broker listens on 127.0.0.1:9092 and keeps its data in ./barnabas-data.
It prints one line when it is ready, `listening on HOST:PORT, data in DIRECTORY`, and ends cleanly on Ctrl-C or SIGTERM.
"""


_VALUES = {
    "--listen": "listen",
    "--data": "data",
    "--config": "config",
    "--metrics": "metrics",
    "--request-log": "request_log",
}
_FLAGS = {"--allow-remote": "allow_remote", "--until-stdin-ends": "until_stdin_ends"}


class Options:
    """The command's options; the same attributes as argparse gives."""

    def __init__(self) -> None:
        self.listen: str | None = None
        self.data: str | None = None
        self.config: str | None = None
        self.metrics: str | None = None
        self.request_log: str | None = None
        self.request_log_every = 1
        self.set: list[str] = []
        self.allow_remote = False
        self.until_stdin_ends = False


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
        else:
            return None
    return options


def add_parser(subparsers: Any) -> None:
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
    parser.add_argument("--data", metavar="DIR", help="where logs and metadata lie; made if it is not there")
    parser.add_argument("--config", metavar="FILE", help="a Kafka server.properties to start from")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a broker setting of Kafka's; repeatable"
    )
    parser.add_argument(
        "--metrics", metavar="HOST:PORT", help="serve metrics for Prometheus at http://HOST:PORT/metrics"
    )
    parser.add_argument("--request-log", metavar="FILE", help="write a line for each request; - is standard error")
    parser.add_argument(
        "--request-log-every", metavar="N", type=int, default=1, help="write a line for every N-th request only"
    )
    parser.add_argument(
        "--allow-remote", action="store_true", help="let other machines connect, though there is no authentication"
    )
    # For the embedded broker: the parent holds the other end, and when it dies this broker ends too.
    parser.add_argument("--until-stdin-ends", action="store_true", help=argparse.SUPPRESS)


def run(args: Options | argparse.Namespace) -> int:
    """Run the broker until it is told to stop. Raises KafkaError if it cannot start."""
    # Loading code makes no garbage, and what is loaded stays: the collector need not look at it, now or later.
    gc.disable()
    try:
        return _run(args)
    finally:
        gc.enable()


def _run(args: Options | argparse.Namespace) -> int:
    config, data = settings(args)
    from barnabas.broker.runner import BrokerRunner, check_exposure

    if not args.allow_remote:
        check_exposure(config)

    def on_ready(bound: list[Listener]) -> None:
        listening = ", ".join(listener.address for listener in bound)
        gc.freeze()
        gc.enable()
        print(f"listening on {listening}, data in {data}", flush=True)

    BrokerRunner(
        config,
        data,
        on_ready,
        stop_on_eof=sys.stdin.fileno() if args.until_stdin_ends else None,
        metrics=_metrics_listener(args),
        request_log=_request_log(args),
    ).run()
    return 0


def _metrics_listener(args: Options | argparse.Namespace) -> Listener | None:
    if args.metrics is None:
        return None
    from barnabas.broker.config import Listener, is_loopback, parse_address

    try:
        import prometheus_client  # noqa: F401 - only to see whether it is there
    except ImportError:
        raise ConfigError("--metrics needs the package prometheus-client: pip install 'barnabas[metrics]'") from None
    listener = Listener("METRICS", *parse_address(args.metrics))
    if not args.allow_remote and not is_loopback(listener.host):
        raise ConfigError(
            f"--metrics {args.metrics} can be reached from other machines and has no authentication: serve them on "
            "127.0.0.1, or accept that with --allow-remote"
        )
    return listener


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


def settings(args: Options | argparse.Namespace) -> tuple[BrokerConfig, str]:
    """The broker's settings and its data directory. Raises ConfigError."""
    from barnabas.broker.config import BrokerConfig

    properties: dict[str, str] = {}
    if args.config:
        from barnabas.config.properties_file import read_properties

        properties = read_properties(args.config)
    chosen = _chosen(args.set)
    _choose_listener(args, properties, chosen)
    given = {**properties, **chosen}
    if args.data or not {"log.dirs", "log.dir"} & given.keys():
        given["log.dirs"] = os.path.abspath(args.data or DEFAULT_DATA)
    config = BrokerConfig(given)
    return config, os.path.abspath(args.data or config.data_directory or DEFAULT_DATA)


def _chosen(assignments: list[str]) -> dict[str, str]:
    chosen = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name:
            raise ConfigError(f"--set {assignment}: it must be NAME=VALUE, such as --set num.partitions=6")
        chosen[name.strip()] = value.strip()
    return chosen


def _choose_listener(args: Options | argparse.Namespace, properties: dict[str, str], chosen: dict[str, str]) -> None:
    if args.listen is not None:
        from barnabas.broker.config import join_address, parse_address

        # What the file advertises belongs to the listeners of the file.
        properties.pop("advertised.listeners", None)
        chosen["listeners"] = f"PLAINTEXT://{join_address(*parse_address(args.listen))}"
    elif "listeners" not in properties and "listeners" not in chosen:
        chosen["listeners"] = f"PLAINTEXT://{DEFAULT_LISTEN}"
    elif not args.allow_remote and "listeners" not in chosen:
        properties["listeners"] = _on_loopback(properties["listeners"])


def _on_loopback(listeners: str) -> str:
    # Kafka's stock file has PLAINTEXT://:9092, which is every address of the machine: nobody chose that.
    narrowed = listeners.replace("://:", "://127.0.0.1:")
    if narrowed != listeners:
        sys.stderr.write(
            f"barnabas: listeners={listeners} means every address of this machine; without authentication the broker "
            "listens on 127.0.0.1 only (--allow-remote changes that)\n"
        )
    return narrowed
