"""`barnabas streams`: topologies of `barnabas.streams`, drawn, planned, measured, set back to their beginning."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.spark.exactly_once.driver_steps import SinkPlace
    from barnabas.streams.spark.query_plan import Plan
    from barnabas.streams.spark.topology_changes import Change
    from barnabas.streams.topology.topology import Topology

_EXAMPLES = """\
  barnabas streams describe airport.delays:topology
  barnabas streams describe airport.delays:topology --svg delays.svg
  barnabas streams plan airport.delays:topology --application-id delays
  barnabas streams state airport.delays:topology --application-id delays
  barnabas streams reset airport.delays:topology --application-id delays --execute
"""

COLUMNS = ("topic", "what", "partitions", "exists")
STATE_COLUMNS = ("task", "store", "changelog", "changes", "kept", "lag", "entries", "bytes")


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "draw and plan topologies of barnabas.streams, and set applications back to their beginning"
    parts = add_command(subparsers, "streams", about, examples=_EXAMPLES).add_subparsers(
        metavar="ACTION", required=True
    )
    describe = add_command(parts, "describe", "print a topology as Kafka does, or draw it", examples=_EXAMPLES)
    plan = add_command(
        parts, "plan", "show tasks and topics that an application has or needs, and its changes", examples=_EXAMPLES
    )
    state = add_command(
        parts, "state", "show how large stores are, and what this machine keeps of them", examples=_EXAMPLES
    )
    reset = add_command(
        parts, "reset", "delete an application's internal topics and committed offsets", examples=_EXAMPLES
    )
    actions = ((describe, run_describe), (plan, run_plan), (state, run_state), (reset, run_reset))
    for parser, action in actions:
        parser.add_argument("topology", metavar="MODULE:NAME", help="a Topology, or a function that makes one")
        parser.set_defaults(action=action)
    for parser in (plan, state, reset):
        parser.add_argument("--application-id", metavar="ID", required=True, help="the setting application.id")
        add_connection(parser)
    describe.add_argument("--svg", metavar="FILE", help="draw it into this file as SVG; - is standard output")
    state.add_argument("--state-dir", metavar="DIR", help="the setting state.dir (default: /tmp/kafka-streams)")
    reset.add_argument("--execute", action="store_true", help="do it; without, only show what would be done")


def run_describe(args: Namespace) -> int:
    """Print the topology's description, or draw it."""
    described = topology_of(args.topology).describe()
    if args.svg is None:
        print(described)
        return 0
    from barnabas.streams.topology.drawing import svg_of

    picture = svg_of(described, f"Topology {args.topology}")
    if args.svg == "-":
        print(picture, end="")
    else:
        Path(args.svg).write_text(picture, encoding="utf-8")
    return 0


def run_plan(args: Namespace) -> int:
    """Print how many tasks there are, every topic of the application, and what has changed since its last start."""
    with admin_client(args) as admin:
        plan, rows, tasks = _planned(args, admin)
        changes = [change._asdict() for change in _changes(args, admin, plan)]
    if args.output == "json":
        print_json({"applicationId": args.application_id, "tasks": tasks, "topics": rows, "changes": changes})
        return 0
    for number, info in sorted(plan.infos.items()):
        stores = ", ".join(sorted(plan.subtopologies[number].state_stores)) or "none"
        print(f"sub-topology {number}: {tasks[number]} tasks, reads {', '.join(sorted(info.source_topics))}")
        print(f"  stores {stores}")
    print()
    print_table(rows, COLUMNS)
    for change in changes:
        print(f"{'changed' if change['is_safe'] else 'NOT SAFE'}: {change['name']} {change['what']}")
    return 0


def _changes(args: Namespace, admin: AdminClient, plan: Plan) -> list[Change]:
    from barnabas.streams.spark import topology_memory
    from barnabas.streams.spark.topology_shape import shape_of

    before, now = topology_memory.remembered(_place(args), args.application_id), shape_of(plan)
    if before is None or before == now:
        return []

    def stands() -> dict[TopicPartition, int]:
        return {each: at.offset for each, at in admin.list_consumer_group_offsets(args.application_id).items()}

    return topology_memory.changes_on(admin, before, now, stands)


def _place(args: Namespace) -> SinkPlace:
    from barnabas.cli.connection import client_settings
    from barnabas.spark.exactly_once.decision import DECISION_TOPIC
    from barnabas.spark.exactly_once.driver_steps import SinkPlace
    from barnabas.streams.spark.query_plan import TRANSACTIONAL_ID_PREFIX

    settings = sorted((name, str(value)) for name, value in client_settings(args, "producer").items())
    return SinkPlace(tuple(settings), DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX)


def run_state(args: Namespace) -> int:
    """Print each store of each task: its changelog, what is kept here, and how far that lags behind."""
    from barnabas.streams.spark.application import STATE_DIR
    from barnabas.streams.spark.store_sizes import store_rows

    folder = Path(args.state_dir or STATE_DIR) / args.application_id
    with admin_client(args) as admin:
        plan, _, tasks = _planned(args, admin)
        rows = [row._asdict() for row in store_rows(plan, tasks, admin, folder)]
    if args.output == "json":
        print_json({"applicationId": args.application_id, "stores": rows})
        return 0
    print_table(rows, STATE_COLUMNS)
    note(
        f"kept, lag, entries and bytes: what lies in {folder} on this machine; bytes are the task's, of all its stores"
    )
    return 0


def run_reset(args: Namespace) -> int:
    """Delete internal topics and the group's offsets: the application begins anew, as `auto.offset.reset` says."""
    from barnabas.streams.spark import topology_memory

    with admin_client(args) as admin:
        _, rows, _ = _planned(args, admin)
        internal = [row["topic"] for row in rows if row["what"] in ("repartition", "changelog") and row["exists"]]
        verb = "deleted" if args.execute else "would delete"
        if args.execute:
            if internal:
                admin.delete_topics(internal)
            if admin.list_consumer_group_offsets(args.application_id):
                admin.delete_consumer_groups([args.application_id])
            topology_memory.forget(_place(args), args.application_id)
    if args.output == "json":
        print_json({"executed": args.execute, "topics": internal, "group": args.application_id})
        return 0
    print(f"{verb} {len(internal)} internal topics: {', '.join(internal) or 'none'}")
    print(f"{verb} the committed offsets of group {args.application_id}")
    note("delete the checkpoint, too: the application is known by it (checkpoint_location, or in state.dir)")
    return 0


def topology_of(reference: str) -> Topology:
    """Import a topology. Raises UsageError for what is none."""
    from barnabas.config.loading import load_attribute
    from barnabas.errors import UsageError
    from barnabas.streams.topology.topology import Topology

    path = sys.path[:]
    sys.path.insert(0, os.getcwd())
    try:
        found = load_attribute(reference, "MODULE:NAME")
        made = found() if callable(found) else found
    finally:
        sys.path[:] = path
    if not isinstance(made, Topology):
        raise UsageError(f"{reference} is no Topology, nor makes one, but {type(made).__name__}: builder.build() does")
    return made


def _planned(args: Namespace, admin: AdminClient) -> tuple[Plan, list[dict[str, Any]], dict[int, int]]:
    from barnabas.streams.config import StreamsConfig
    from barnabas.streams.spark import internal_topics
    from barnabas.streams.spark.query_plan import planned_on

    config = {"application.id": args.application_id, "bootstrap.servers": "of the command"}
    plan = planned_on(admin, topology_of(args.topology), StreamsConfig(config))
    there = internal_topics.partition_counts(admin, plan.sources | plan.sinks | plan.global_topics | plan.changelogs)
    counts = internal_topics.counted(plan.infos, plan.copartitioned, there)
    rows: dict[str, dict[str, Any]] = {}

    def add(topic: str, what: str, partitions: int | None) -> None:
        exists = topic in there
        rows.setdefault(
            topic, {"topic": topic, "what": what, "partitions": there.get(topic, partitions), "exists": exists}
        )

    for number, info in sorted(plan.infos.items()):
        for topic in sorted(info.source_topics):
            add(topic, "repartition" if topic in info.repartition_source_topics else "source", counts.partitions[topic])
        for topic in sorted(info.state_changelog_topics):
            add(topic, "changelog", counts.tasks[number])
    for topic in sorted(plan.global_topics):
        add(topic, "global", None)
    for topic in sorted(plan.sinks):
        add(topic, "sink", None)
    return plan, [*rows.values()], counts.tasks
