"""`barnabas up --brokers N`: a whole cluster in the foreground, each node a process."""

from __future__ import annotations

import os
import signal

from barnabas.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from types import FrameType

    from barnabas.broker.local_cluster import LocalCluster
    from barnabas.cli.broker_settings import Options

#: What says how one broker is set up.
_OF_ONE_BROKER = ("config", "environment", "metrics", "request_log", "secure", "add_scram", "console")
_LOOK = 0.2


def run(args: Options | argparse.Namespace) -> int:
    """Run brokers and controllers until it is told to stop. Raises `KafkaError` if they cannot start."""
    from barnabas.broker.config import is_loopback, parse_address
    from barnabas.broker.local_cluster import LocalCluster, consecutive
    from barnabas.cli.broker_settings import DEFAULT_DATA, DEFAULT_LISTEN
    from barnabas.cli.named_values import named_values

    _check(args)
    listen = args.listen or DEFAULT_LISTEN
    if not args.allow_remote and not is_loopback(parse_address(listen)[0]):
        raise ConfigError(
            f"{listen} can be reached from other machines, and clients do not authenticate: listen on 127.0.0.1, or "
            "accept that with --allow-remote"
        )
    data = os.path.abspath(args.data or DEFAULT_DATA)
    cluster = LocalCluster(
        data,
        consecutive(listen, args.brokers or 1),
        named_values(args.set, "--set", "num.partitions=6"),
        controllers=args.controllers,
        options=("--log-format", args.log_format, "--log-level", args.log_level),
        is_visible=True,
    )
    ended: list[int] = []
    # Before the children are there: their end is to be seen to from their first moment on.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: _end(ended, number, frame))
    try:
        cluster.start()
        _say_what_runs(cluster, data)
        _watch(cluster, ended, args)
    except _EndedError:
        # Told to stop while they started.
        return 0
    finally:
        cluster.stop()
    return 0


class _EndedError(Exception):
    """The command is to end."""


def _end(ended: list[int], number: int, frame: FrameType | None) -> None:
    ended.append(number)
    if len(ended) == 1:
        raise _EndedError


def _check(args: Options | argparse.Namespace) -> None:
    if (args.brokers or 0) < 1 or args.controllers < 1:
        raise ConfigError(f"--brokers {args.brokers} --controllers {args.controllers}: there is at least one of each")
    given = [name for name in _OF_ONE_BROKER if getattr(args, name)]
    if given:
        options = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ConfigError(f"{options}: not with --brokers; it is for one broker")


def _say_what_runs(cluster: LocalCluster, data: str) -> None:
    for node_id, address in cluster.controllers.items():
        print(f"controller {node_id} on {address}, process {cluster.pid(node_id)}")
    for node_id, address in cluster.addresses.items():
        print(f"broker {node_id} on {address}, process {cluster.pid(node_id)}")
    print(f"listening on {', '.join(cluster.addresses.values())}, data in {data}", flush=True)


def _watch(cluster: LocalCluster, ended: list[int], args: Options | argparse.Namespace) -> None:
    """Tell of nodes that end by themselves; returns when none is left, or stdin ends where that is asked."""
    import select
    import sys
    import time

    left = set(cluster.node_ids)
    while left and not ended:
        for node_id, code in cluster.take_ended():
            left.discard(node_id)
            kind = "controller" if node_id in cluster.controllers else "broker"
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            print(
                f"{kind} {node_id} has ended {how}; `barnabas up --config {cluster.properties_of(node_id)}` starts it "
                "again",
                file=sys.stderr,
                flush=True,
            )
        if args.until_stdin_ends:
            readable, _, _ = select.select([sys.stdin], [], [], _LOOK)
            if readable and not sys.stdin.read(1):
                return
        else:
            time.sleep(_LOOK)
