"""`barnabas up --brokers N`: a whole cluster in the foreground, each node a process."""

from __future__ import annotations

import os
import signal

from barnabas.cli.printed_command import printed_command
from barnabas.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from types import FrameType

    from barnabas.broker.local_cluster import LocalCluster
    from barnabas.cli.broker_settings import Options

#: What says how one broker is set up.
_OF_ONE_BROKER = ("config", "environment", "request_log", "add_scram")
_LOOK = 0.2


def run(args: Options | argparse.Namespace) -> int:
    """Run brokers and controllers until it is told to stop. Raises `KafkaError` if they cannot start."""
    from barnabas.broker.config import is_loopback, parse_address
    from barnabas.broker.local_cluster import ControlledBy, Launching, LocalCluster, consecutive
    from barnabas.cli import console
    from barnabas.cli.broker_settings import DEFAULT_DATA, DEFAULT_LISTEN
    from barnabas.cli.named_values import named_values

    _check(args)
    data = os.path.abspath(args.data or DEFAULT_DATA)
    given = named_values(args.set, "--set", "num.partitions=6")
    secured = None
    if args.secure:
        from barnabas.cli import secure_cluster

        secured = secure_cluster.secure_cluster(given, args.listen, data)
    listen = args.listen or (DEFAULT_LISTEN if secured is None else secured.listen)
    if secured is None and not args.allow_remote and not is_loopback(parse_address(listen)[0]):
        raise ConfigError(
            f"{listen} can be reached from other machines, and clients do not authenticate: listen on 127.0.0.1, or "
            "accept that with --allow-remote"
        )
    if args.console:
        console.check_installed()
    metrics = _metrics(args)

    def options_of(node_id: int) -> list[str]:
        served = ["--metrics", metrics[node_id]] if node_id in metrics else []
        return ["--log-format", args.log_format, "--log-level", args.log_level, *served]

    cluster = LocalCluster(
        data,
        consecutive(listen, args.brokers or 1),
        given,
        controlled_by=ControlledBy(args.controllers, args.zookeeper),
        launching=Launching(options_of, is_visible=True),
        security=None if secured is None else secured.security,
    )
    ended: list[int] = []
    # Before the children are there: their end is to be seen to from their first moment on.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: _end(ended, number, frame))
    try:
        cluster.start()
        _say_what_runs(cluster, data, metrics)
        if secured is not None:
            print(secured.made.tell(secured.servers(cluster.addresses.values())), flush=True)
        if args.console:
            connection = ["-b", cluster.bootstrap_servers] if secured is None else ["--config", secured.made.admin_file]
            console.start_for(connection, no_browser=args.no_browser)
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
    brokers = 1 if args.brokers is None else args.brokers
    if brokers < 1 or args.controllers < 1:
        raise ConfigError(f"--brokers {brokers} --controllers {args.controllers}: there is at least one of each")
    if args.zookeeper is not None and args.controllers != 1:
        raise ConfigError("--controllers: not with --zookeeper; there the brokers elect one of them")
    given = [name for name in _OF_ONE_BROKER if getattr(args, name)]
    if given:
        options = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ConfigError(f"{options}: not with --brokers or --zookeeper; it is for one broker")


def _metrics(args: Options | argparse.Namespace) -> dict[int, str]:
    """Return where each node serves its metrics: on consecutive ports, the brokers first. Raises `ConfigError`."""
    from barnabas.broker.local_cluster import FIRST_CONTROLLER, consecutive
    from barnabas.cli.metrics_listener import metrics_listener

    listener = metrics_listener(args)
    if listener is None:
        return {}
    if not listener.port:
        raise ConfigError(f"--metrics {args.metrics}: with --brokers give a port; each node has one, from there on")
    brokers, controllers = args.brokers or 1, args.controllers if args.zookeeper is None else 0
    nodes = [*range(1, brokers + 1), *range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)]
    return dict(zip(nodes, consecutive(args.metrics or "", len(nodes)), strict=True))


def _say_what_runs(cluster: LocalCluster, data: str, metrics: Mapping[int, str]) -> None:
    for node_id, address in {**cluster.controllers, **cluster.addresses}.items():
        served = f", metrics at http://{metrics[node_id]}/metrics" if node_id in metrics else ""
        print(f"{cluster.kind(node_id)} {node_id} on {address}, process {cluster.pid(node_id)}{served}")
    print(f"listening on {', '.join(cluster.addresses.values())}, data in {data}", flush=True)


def _watch(cluster: LocalCluster, ended: list[int], args: Options | argparse.Namespace) -> None:
    """Start nodes again that fail; returns when none is left, or stdin ends where that is asked."""
    import select
    import sys
    import time

    from barnabas.cli.restart_policy import RestartPolicy

    policy = RestartPolicy()
    left = set(cluster.node_ids)
    for node_id in left:
        policy.started(node_id, time.monotonic())
    while (left or policy.is_waiting) and not ended:
        now = time.monotonic()
        for node_id, code in cluster.take_ended():
            left.discard(node_id)
            _tell(_how_it_ended(cluster, node_id, code, policy.ended(node_id, code, now)))
        for node_id in policy.take_due(now):
            cluster.begin(node_id)
            policy.started(node_id, now)
            left.add(node_id)
            _tell(f"{cluster.kind(node_id)} {node_id} is started again, process {cluster.pid(node_id)}")
        if args.until_stdin_ends:
            readable, _, _ = select.select([sys.stdin], [], [], _LOOK)
            if readable and not sys.stdin.read(1):
                return
        else:
            time.sleep(_LOOK)


def _how_it_ended(cluster: LocalCluster, node_id: int, code: int, pause: float | None) -> str:
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    ended = f"{cluster.kind(node_id)} {node_id} has ended {how}; "
    if pause is not None:
        return f"{ended}it is started again in {pause:.0f} s"
    return f"{ended}`{printed_command('up', *cluster.options_of(node_id))}` starts it again"


def _tell(line: str) -> None:
    import sys

    print(line, file=sys.stderr, flush=True)
