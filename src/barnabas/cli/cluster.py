"""`barnabas cluster`: brokers, partitions that need attention, and the quorum of the controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli import feature, format, log_dir
from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import note, print_json, print_rows, print_table, printable, report_failures

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace

    from barnabas import AdminClient
    from barnabas.client.admin.cluster import ClusterDescription
    from barnabas.client.admin.quorum import ActiveController, QuorumInfo
    from barnabas.client.admin.topic_descriptions import TopicPartitionInfo

_EXAMPLES = """\
  barnabas cluster                        brokers, controller, partitions that need attention
  barnabas cluster quorum                 who votes, who leads, how far each is behind
  barnabas cluster add-controller --id 101 --directory-id ID --endpoint CONTROLLER://host:9093
  barnabas cluster remove-controller --id 101 --directory-id ID
  barnabas cluster log-dirs               where brokers keep their logs
  barnabas cluster features               at which level the cluster is
  barnabas cluster unregister 3           forget a broker that will not come back
"""
_QUORUM = ("node", "role", "directory", "endOffset", "behind", "caughtUpMsAgo", "endpoints")


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "show brokers, controllers and partitions that need attention; change the quorum"
    parser = add_command(subparsers, "cluster", about, examples=_EXAMPLES)
    add_connection(parser)
    parser.set_defaults(action=_overview)
    parts = parser.add_subparsers(metavar="ACTION")
    quorum = add_command(parts, "quorum", "show the quorum of controllers: its leader, voters and observers")
    add_connection(quorum)
    quorum.set_defaults(action=_quorum)
    add = add_command(parts, "add-controller", "make a controller that is running a voter (KIP-853)")
    _add_voter_options(add)
    endpoint = "where it listens for controllers; repeatable"
    add.add_argument("--endpoint", metavar="NAME://HOST:PORT", action="append", required=True, help=endpoint)
    add.set_defaults(action=_add_controller)
    remove = add_command(parts, "remove-controller", "take the vote of a controller away (KIP-853)")
    _add_voter_options(remove)
    remove.set_defaults(action=_remove_controller)
    formatting = add_command(parts, "format", "format the directories of a node, as `barnabas format`")
    format.add_options(formatting)
    formatting.set_defaults(action=format.run)
    log_dirs = add_command(parts, "log-dirs", "show the brokers' log directories, as `barnabas log-dir`")
    log_dir.add_options(log_dirs)
    log_dirs.set_defaults(action=log_dir.run)
    features = add_command(parts, "features", "show the features' levels, as `barnabas feature list`")
    add_connection(features)
    features.set_defaults(action=feature.list_features)
    unregister = add_command(parts, "unregister", "forget a broker that is gone and will not come back")
    unregister.add_argument("broker", metavar="BROKER", help="its id")
    add_connection(unregister)
    unregister.set_defaults(action=_unregister)


def _add_voter_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", metavar="NODE", type=int, required=True, help="its node.id")
    said = "directory.id of meta.properties in its metadata directory"
    parser.add_argument("--directory-id", metavar="ID", required=True, help=said)
    add_connection(parser)


# -- the overview ----------------------------------------------------------------------------------------------------


def _overview(args: Namespace) -> int:
    with admin_client(args) as admin:
        cluster = admin.describe_cluster()
        controller = _controller(admin, cluster)
        names = list(admin.list_topics(include_internal=True))
        topics = admin.describe_topics(names, raise_errors=False) if names else {}
        groups = admin.list_groups(raise_errors=False)
        outcome = report_failures("cluster", groups.errors.values())
        least = _least_in_sync(admin, names)
    partitions = [(str(name), partition) for name, topic in topics.items() for partition in topic.partitions]
    led = [p.leader.id for _, p in partitions if p.leader is not None]
    in_sync = [node.id for _, p in partitions for node in p.in_sync_replicas]
    held = [node.id for _, p in partitions for node in p.replicas]
    brokers = [
        {
            "id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "controller": node.id == controller.id,
            "leads": led.count(node.id),
            "replicas": held.count(node.id),
            "inSync": in_sync.count(node.id),
        }
        for node in sorted(cluster.nodes)
    ]
    away = sorted(set(held) - {node.id for node in cluster.nodes})
    trouble = _trouble(partitions, least)
    document = {
        "clusterId": cluster.cluster_id,
        "controller": controller.id,
        "controllerEpoch": controller.epoch,
        "topics": len(topics),
        "partitions": len(partitions),
        "groups": len(groups),
        "brokers": brokers,
        "away": away,
        **trouble,
    }
    if args.output == "json":
        print_json(document)
        return outcome
    print(f"cluster     {printable(str(cluster.cluster_id))}")
    print(f"controller  {_named(controller)}")
    print(f"holds       {len(topics)} topics, {len(partitions)} partitions, {len(groups)} groups")
    if away:
        print(f"away        {len(away)} with replicas: broker {', '.join(map(str, away))}")
    for what, found in trouble.items():
        if found:
            print(f"{_TROUBLE[what]}  {len(found)}: {printable(', '.join(found[:_SHOWN]))}{_more(found)}")
    print()
    print_table(brokers, ("id", "host", "port", "rack", "controller", "leads", "replicas", "inSync"))
    return outcome


def _controller(admin: AdminClient, cluster: ClusterDescription) -> ActiveController:
    from barnabas.client.admin.quorum import CONTROLLER_ANSWERS_WITHIN, active_controller
    from barnabas.errors import KafkaError

    try:
        return active_controller(cluster, admin.describe_metadata_quorum(timeout=CONTROLLER_ANSWERS_WITHIN))
    except KafkaError as error:
        return active_controller(cluster, error)


def _named(controller: ActiveController) -> str:
    name = "none" if controller.id is None else str(controller.id)
    if controller.error is not None:
        return f"{name if controller.is_missing else 'not told'}: {controller.error}"
    return name if controller.epoch is None else f"{name}, epoch {controller.epoch}"


def _trouble(partitions: list[tuple[str, TopicPartitionInfo]], least: dict[str, int]) -> dict[str, list[str]]:
    """Return what needs attention: partitions without a leader, with replicas that lag, that refuse acks=all."""

    def is_below(name: str, partition: TopicPartitionInfo) -> bool:
        return len(partition.in_sync_replicas) < min(least.get(name, 1), len(partition.replicas))

    return {
        "offline": [_name(name, p) for name, p in partitions if p.leader is None],
        "underReplicated": [_name(name, p) for name, p in partitions if len(p.in_sync_replicas) < len(p.replicas)],
        "underMinIsr": [_name(name, p) for name, p in partitions if is_below(name, p)],
    }


_TROUBLE = {"offline": "offline", "underReplicated": "under-replicated", "underMinIsr": "below min.insync.replicas"}
_SHOWN = 5


def _more(found: list[str]) -> str:
    return f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""


def _name(topic: str, partition: TopicPartitionInfo) -> str:
    return f"{topic}:{partition.partition}"


def _least_in_sync(admin: AdminClient, topics: list[str]) -> dict[str, int]:
    """Return min.insync.replicas of each topic, where this user may see it."""
    from barnabas.client.admin.configs import ConfigResource
    from barnabas.protocol.kinds import ConfigResourceType

    if not topics:
        return {}
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
    described = admin.describe_configs(wanted, raise_errors=False)
    return {
        resource.name: int(entries["min.insync.replicas"].value or 1)
        for resource, entries in described.items()
        if "min.insync.replicas" in entries
    }


# -- the quorum ------------------------------------------------------------------------------------------------------


def _quorum(args: Namespace) -> int:
    import base64

    from barnabas.clock import wall_clock_ms

    with admin_client(args) as admin:
        found = admin.describe_metadata_quorum()
    now = wall_clock_ms()
    rows = []
    for role, replicas in (("voter", found.voters), ("observer", found.observers)):
        for one in replicas:
            is_leader = one.replica_id == found.leader_id and role == "voter"
            at = [f"{end.listener}://{end.host}:{end.port}" for end in found.nodes.get(one.replica_id, ())]
            caught_up = one.last_caught_up_timestamp
            rows.append(
                {
                    "node": one.replica_id,
                    "role": "leader" if is_leader else role,
                    "directory": base64.urlsafe_b64encode(one.replica_directory_id).rstrip(b"=").decode(),
                    "endOffset": one.log_end_offset,
                    "behind": max(0, _end_of(found) - one.log_end_offset) if one.log_end_offset >= 0 else None,
                    "caughtUpMsAgo": 0 if is_leader else max(0, now - caught_up) if caught_up >= 0 else None,
                    "endpoints": ",".join(at) if role == "voter" else "",
                }
            )
    if args.output == "table":
        leader = "none" if found.leader_id < 0 else found.leader_id
        note(f"leader {leader}, epoch {found.leader_epoch}, high watermark {found.high_watermark}")
    print_rows(args.output, rows, _QUORUM)
    return 0


def _end_of(found: QuorumInfo) -> int:
    return max(one.log_end_offset for one in found.voters) if found.voters else 0


def _add_controller(args: Namespace) -> int:
    from barnabas.client.admin.quorum import RaftVoterEndpoint
    from barnabas.errors import ConfigError

    endpoints = []
    for text in args.endpoint:
        name, separator, address = text.partition("://")
        host, colon, port = address.rpartition(":")
        if not (separator and name and colon and port.isdecimal()):
            raise ConfigError(f"--endpoint {text}: it must be NAME://HOST:PORT, such as CONTROLLER://host:9093")
        endpoints.append(RaftVoterEndpoint(name, host.strip("[]"), int(port)))
    with admin_client(args) as admin:
        admin.add_raft_voter(args.id, _directory_id(args.directory_id), endpoints)
    print(f"controller {args.id} votes")
    return 0


def _remove_controller(args: Namespace) -> int:
    with admin_client(args) as admin:
        admin.remove_raft_voter(args.id, _directory_id(args.directory_id))
    print(f"controller {args.id} votes no more")
    return 0


def _directory_id(text: str) -> bytes:
    import base64
    import binascii

    from barnabas.errors import ConfigError

    try:
        found = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error:
        found = b""
    if len(found) != 16:
        raise ConfigError(f"--directory-id {text}: it has 22 characters, as `barnabas cluster quorum` shows it")
    return found


def _unregister(args: Namespace) -> int:
    from barnabas.errors import ConfigError

    if not (args.broker.isascii() and args.broker.isdigit()):
        raise ConfigError(f"{args.broker!r} is no broker's id: it is a whole number, as `barnabas cluster` shows it")
    broker = int(args.broker)
    with admin_client(args) as admin:
        # Who is alive would be out of service until it is started again, and lead nothing.
        if any(node.id == broker for node in admin.describe_cluster().nodes):
            raise ConfigError(f"broker {broker} is in service: stop it first, and for good; nothing was changed")
        admin.unregister_broker(broker)
    print(f"broker {args.broker} is unregistered")
    return 0
