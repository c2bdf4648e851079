"""`barnabas topic reassign`: move partitions to other brokers, as kafka-reassign-partitions does (KIP-455)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_client_options, add_command, add_connection, positive
from barnabas.cli.connection import admin_client
from barnabas.cli.hanging_transactions import all_partitions
from barnabas.cli.output import note, print_rows, report_failures
from barnabas.cli.reassignment_directories import Directories, cancel_moves, directories_now, move_logs, states
from barnabas.cli.reassignment_plan import Assignment, Plan, broker_ids, from_text, spread, to_document
from barnabas.cli.reassignment_throttle import remove_throttle, throttle, throttle_directories
from barnabas.errors import ConfigError, IllegalStateError, NoReassignmentInProgressError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Mapping

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.reassignments import PartitionReassignment

_EXAMPLES = """\
  barnabas topic reassign plan flights --to 1,2,3 > plan.json
  barnabas topic reassign execute --file plan.json --throttle 50000000 > way-back.json
  barnabas topic reassign execute flights:0,2-4 --to 4,5
  barnabas topic reassign status --file plan.json
  barnabas topic reassign cancel flights
"""
_TARGET = "the brokers to spread them over, such as 1,2,3"
_COLUMNS = ("topic", "partition", "state", "replicas", "adding", "removing")


def add_parser(parts: Subparsers) -> None:
    """Describe the options of plan, execute, status and cancel."""
    parser = add_command(parts, "reassign", "move partitions to other brokers", examples=_EXAMPLES)
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    plan = add_command(actions, "plan", "print, as JSON, where partitions would go; changes nothing")
    plan.add_argument("partitions", metavar="TOPIC[:LIST]", nargs="+")
    plan.add_argument("--to", metavar="IDS", type=broker_ids, required=True, help=_TARGET)
    _add_replication_factor(plan)
    add_client_options(plan)
    plan.set_defaults(action=_plan)

    execute = add_command(actions, "execute", "begin to move partitions; prints, as JSON, where they were")
    _add_chosen(execute)
    execute.add_argument("--to", metavar="IDS", type=broker_ids, help=_TARGET)
    _add_replication_factor(execute)
    limit = "of each broker a second; `status` removes it"
    execute.add_argument("--throttle", metavar="BYTES", type=positive, help=limit)
    between = "of each broker a second between its directories; `status` removes it"
    execute.add_argument("--replica-alter-log-dirs-throttle", metavar="BYTES", type=positive, help=between)
    execute.add_argument("--additional", action="store_true", help="also while others are being moved")
    add_client_options(execute)
    execute.set_defaults(action=_execute)

    status = add_command(actions, "status", "show what is being moved; when all is done, remove the throttle")
    _add_chosen(status)
    _add_preserve(status)
    add_connection(status)
    status.set_defaults(action=_status)

    cancel = add_command(actions, "cancel", "leave partitions where they were before")
    _add_chosen(cancel)
    cancel.add_argument("--all", action="store_true", help="all that are being moved")
    _add_preserve(cancel)
    add_connection(cancel)
    cancel.set_defaults(action=_cancel)


def _add_chosen(parser: ArgumentParser) -> None:
    parser.add_argument("partitions", metavar="TOPIC[:LIST]", nargs="*")
    parser.add_argument("--file", metavar="FILE", help="a plan as JSON; - is standard input")


def _add_replication_factor(parser: ArgumentParser) -> None:
    parser.add_argument("-r", "--replication-factor", metavar="N", type=positive, help="copies (else as many as now)")


def _add_preserve(parser: ArgumentParser) -> None:
    parser.add_argument("--preserve-throttle", action="store_true", help="leave the throttle as it is")


# -- plan and execute ------------------------------------------------------------------------------------------------


def _plan(args: Namespace) -> int:
    with admin_client(args) as admin:
        current = _current(admin, all_partitions(admin, args.partitions))
        planned = _spread(admin, current, args)
    _print_document(planned, {})
    _say_what_moves(current, planned, "would be")
    return 0


def _execute(args: Namespace) -> int:
    if bool(args.file) == bool(args.partitions):
        raise ConfigError("name either topics with --to, or a plan with --file")
    if args.file and (args.to or args.replication_factor):
        raise ConfigError("--file says where partitions go: leave --to and --replication-factor out")
    if args.replica_alter_log_dirs_throttle and not args.file:
        raise ConfigError("--replica-alter-log-dirs-throttle: only a plan (--file) names directories")
    if args.partitions and not args.to:
        raise ConfigError(f"{' '.join(args.partitions)}: --to must name {_TARGET}")
    plan = _read_plan(args.file) if args.file else Plan({}, {})
    targets = plan.assignment
    with admin_client(args) as admin:
        moving = admin.list_partition_reassignments()
        if moving and not args.additional:
            raise IllegalStateError(
                f"{_named(moving)} is being moved: wait for `barnabas topic reassign status`, or use --additional"
            )
        current = _current(admin, targets or all_partitions(admin, args.partitions))
        if args.file:
            _racks(admin, {broker for replicas in targets.values() for broker in replicas})
        else:
            targets = _spread(admin, current, args)
        _print_document(current, directories_now(admin, plan.directories))
        _throttle(admin, args, _sources(current, moving), targets, plan.directories)
        results = admin.alter_partition_reassignments(targets, raise_errors=False)
        _say_what_moves(current, {key: targets[key] for key in targets if key in results}, "are")
        accepted = {one: path for one, path in plan.directories.items() if TopicPartition(*one[:2]) in results}
        failed = [*results.errors.values(), *move_logs(admin, accepted)]
    return report_failures("topic reassign execute", failed)


def _throttle(
    admin: AdminClient,
    args: Namespace,
    sources: Mapping[TopicPartition, list[int]],
    targets: Assignment,
    directories: Directories,
) -> None:
    if args.throttle is not None:
        throttle(admin, sources, targets, args.throttle)
    if args.replica_alter_log_dirs_throttle is not None:
        throttle_directories(admin, {one.broker_id for one in directories}, args.replica_alter_log_dirs_throttle)
    if args.throttle is not None or args.replica_alter_log_dirs_throttle is not None:
        note("the copies are throttled: `barnabas topic reassign status` with the same topics removes that")


def _sources(
    current: Assignment, moving: Mapping[TopicPartition, PartitionReassignment]
) -> dict[TopicPartition, list[int]]:
    """Return the replicas that have the records: of a move in progress, those that do not come with it."""
    adding = {key: found.adding_replicas for key, found in moving.items()}
    return {key: [one for one in replicas if one not in adding.get(key, ())] for key, replicas in current.items()}


def _spread(admin: AdminClient, current: Assignment, args: Namespace) -> Assignment:
    return spread(current, _racks(admin, args.to), args.replication_factor)


def _racks(admin: AdminClient, brokers: Iterable[int]) -> dict[int, str | None]:
    """Return the racks of brokers. Raises `ConfigError` for one that the cluster does not have."""
    there = {node.id: node.rack for node in admin.describe_cluster().nodes}
    missing = sorted(set(brokers) - there.keys())
    if missing:
        raise ConfigError(f"the cluster has no broker {missing[0]}; it has {', '.join(map(str, sorted(there)))}")
    return {broker: there[broker] for broker in brokers}


def _current(admin: AdminClient, partitions: Iterable[TopicPartition]) -> Assignment:
    from barnabas.errors import UnknownTopicOrPartitionError

    wanted = list(partitions)
    there = {
        TopicPartition(topic.name, info.partition): [node.id for node in info.replicas]
        for topic in admin.describe_topics({key.topic for key in wanted}).values()
        for info in topic.partitions
    }
    missing = [key for key in wanted if key not in there]
    if missing:
        raise UnknownTopicOrPartitionError(f"topic {missing[0].topic!r} has no partition {missing[0].partition}")
    return {key: there[key] for key in wanted}


def _read_plan(path: str) -> Plan:
    if path == "-":
        return from_text(sys.stdin.read(), "standard input")
    try:
        with open(path, encoding="utf-8") as file:
            return from_text(file.read(), path)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text in UTF-8") from None
    except ValueError as problem:
        # Of a path that no file can have.
        raise ConfigError(f"--file {path}: {problem}") from None


def _print_document(assignment: Assignment, directories: Directories) -> None:
    import json

    print(json.dumps(to_document(assignment, directories)), flush=True)


def _say_what_moves(current: Assignment, targets: Assignment, verb: str) -> None:
    changed = [key for key in targets if targets[key] != current[key]]
    copies = sum(len(set(targets[key]) - set(current[key])) for key in changed)
    note(f"{len(changed)} of {len(current)} partitions {verb} moved, {copies} replicas copied")


def _named(partitions: Iterable[TopicPartition]) -> str:
    found = [f"{key.topic}:{key.partition}" for key in sorted(partitions)]
    return found[0] + (f" with {len(found) - 1} more" if len(found) > 1 else "")


# -- status and cancel -----------------------------------------------------------------------------------------------


def _chosen(admin: AdminClient, args: Namespace, plan: Assignment) -> list[TopicPartition]:
    return [*plan, *(all_partitions(admin, args.partitions) if args.partitions else ())]


def _status(args: Namespace) -> int:
    plan, directories = _read_plan(args.file) if args.file else Plan({}, {})
    with admin_client(args) as admin:
        moving = admin.list_partition_reassignments()
        chosen = _chosen(admin, args, plan) or list(moving)
        current = _current(admin, chosen)
        places = states(admin, directories)
        if chosen and not moving and "moving" not in places.values() and not args.preserve_throttle:
            _remove_throttle(admin, chosen, directories)
    rows = [_row(key, current[key], moving.get(key), plan.get(key)) for key in sorted(current)]
    for row, key in zip(rows, sorted(current), strict=True):
        if row["state"] == "done":
            row["state"] = places.get(key, "done")
    print_rows(args.output, rows, _COLUMNS)
    if not chosen and args.output == "human":
        note("nothing is being moved")
    return int(any(row["state"] == "elsewhere" for row in rows))


def _row(
    key: TopicPartition, replicas: list[int], moving: PartitionReassignment | None, target: list[int] | None
) -> dict[str, Any]:
    state = "not moving" if target is None else "done" if target == replicas else "elsewhere"
    return {
        "topic": key.topic,
        "partition": key.partition,
        "state": state if moving is None else "moving",
        "replicas": replicas,
        "adding": moving.adding_replicas if moving else [],
        "removing": moving.removing_replicas if moving else [],
    }


def _cancel(args: Namespace) -> int:
    if bool(args.all) == bool(args.file or args.partitions):
        raise ConfigError("name topics, or a plan with --file, or --all")
    plan, directories = _read_plan(args.file) if args.file else Plan({}, {})
    with admin_client(args) as admin:
        moving = admin.list_partition_reassignments()
        chosen = list(moving) if args.all else _chosen(admin, args, plan)
        cancelled = [key for key in chosen if key in moving]
        results = admin.alter_partition_reassignments(dict.fromkeys(cancelled), raise_errors=False)
        # What is done meanwhile needs no cancelling.
        errors = [e for e in results.errors.values() if not isinstance(e, NoReassignmentInProgressError)]
        stayed, problems = cancel_moves(admin, directories)
        cancelled = sorted({*results, *stayed})
        current = _current(admin, cancelled)
        if not args.preserve_throttle and not admin.list_partition_reassignments():
            _remove_throttle(admin, chosen, directories)
    rows = [{**_row(key, current[key], None, None), "state": "cancelled"} for key in sorted(current)]
    print_rows(args.output, rows, _COLUMNS[:4])
    if not cancelled and args.output == "human":
        note("none of them is being moved")
    return report_failures("topic reassign cancel", errors + problems)


def _remove_throttle(admin: AdminClient, partitions: Iterable[TopicPartition], directories: Directories) -> None:
    topics, brokers = {key.topic for key in partitions}, {replica.broker_id for replica in directories}
    if remove_throttle(admin, sorted(topics), sorted(brokers)):
        note("the throttle is removed")
