"""`barnabas cluster`: the brokers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import print_json, print_table, printable

if TYPE_CHECKING:
    from argparse import Namespace


def add_parser(subparsers: Any) -> None:
    """Describe the command's options."""
    add_connection(add_command(subparsers, "cluster", "show the cluster's id, its brokers and what they hold"))


def run(args: Namespace) -> int:
    """Print what the cluster consists of."""
    with admin_client(args) as admin:
        cluster = admin.describe_cluster()
        names = list(admin.list_topics())
        topics = admin.describe_topics(names, raise_errors=False) if names else {}
        groups = admin.list_groups()
    led = [p.leader.id for topic in topics.values() for p in topic.partitions if p.leader is not None]
    controller = cluster.controller.id if cluster.controller else None
    brokers = [
        {
            "id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "controller": node.id == controller,
            "leads": led.count(node.id),
        }
        for node in sorted(cluster.nodes)
    ]
    partitions = sum(len(topic.partitions) for topic in topics.values())
    document = {
        "clusterId": cluster.cluster_id,
        "controller": controller,
        "topics": len(topics),
        "partitions": partitions,
        "groups": len(groups),
        "brokers": brokers,
    }
    if args.output == "json":
        print_json(document)
        return 0
    print(f"cluster  {printable(str(cluster.cluster_id))}")
    print(f"holds    {len(topics)} topics, {partitions} partitions, {len(groups)} groups\n")
    print_table(brokers, ("id", "host", "port", "rack", "controller", "leads"))
    return 0
