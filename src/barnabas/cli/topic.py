"""`barnabas topic`: list, describe, create, delete, change and move topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli import topic_offsets, topic_reassign
from barnabas.cli.arguments import Subparsers, add_command, add_connection, positive
from barnabas.cli.connection import admin_client
from barnabas.cli.leader import add_elect
from barnabas.cli.named_values import named_values
from barnabas.cli.output import print_json, print_rows, print_table, printable, report_failures

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.topic_descriptions import TopicDescription

_EXAMPLES = """\
  barnabas topic create flights -p 6 --set retention.ms=86400000
  barnabas topic describe flights
  barnabas topic offsets flights --at 2013-06-01T12:00
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list, describe, create, delete, change and move topics"
    parser = add_command(subparsers, "topic", about, examples=_EXAMPLES)
    parts = parser.add_subparsers(metavar="ACTION", required=True)
    _add_readers(parts)
    _add_changers(parts)
    topic_offsets.add_parsers(parts)
    _add_config(parts)
    topic_reassign.add_parser(parts)
    add_elect(parts, command="topic")


def _add_readers(parts: Subparsers) -> None:
    listing = add_command(parts, "list", "list topics")
    listing.add_argument("pattern", metavar="PATTERN", nargs="?", help="only names like this, such as 'flights-*'")
    listing.add_argument("-i", "--internal", action="store_true", help="also Kafka's own, such as __consumer_offsets")
    add_connection(listing)
    listing.set_defaults(action=_list)

    describe = add_command(parts, "describe", "show partitions, leaders, offsets and changed settings")
    describe.add_argument("topics", metavar="TOPIC", nargs="+")
    add_connection(describe)
    describe.set_defaults(action=_describe)


def _add_changers(parts: Subparsers) -> None:
    create = add_command(parts, "create", "create topics")
    create.add_argument("topics", metavar="TOPIC", nargs="+")
    create.add_argument("-p", "--partitions", type=positive, default=-1, metavar="N", help="else the broker's default")
    create.add_argument("-r", "--replication-factor", type=positive, default=-1, metavar="N", help="copies, likewise")
    create.add_argument(
        "--replica-assignment", metavar="IDS", help="brokers of each partition instead of counts, such as 1:2,2:3"
    )
    create.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting; repeatable")
    create.add_argument("--if-not-exists", action="store_true", help="do not complain about topics that are there")
    create.add_argument("--dry-run", action="store_true", help="only ask whether it could be done")
    add_connection(create)
    create.set_defaults(action=_create)

    delete = add_command(parts, "delete", "delete topics with all their records")
    delete.add_argument("topics", metavar="TOPIC", nargs="+")
    delete.add_argument("--if-exists", action="store_true", help="do not complain about topics that are not there")
    add_connection(delete)
    delete.set_defaults(action=_delete)

    alter = add_command(parts, "alter", "give topics more partitions")
    alter.add_argument("topics", metavar="TOPIC", nargs="+")
    alter.add_argument("-p", "--partitions", type=positive, metavar="N", required=True, help="the new total")
    alter.add_argument("--dry-run", action="store_true", help="only ask whether it could be done")
    add_connection(alter)
    alter.set_defaults(action=_alter)


def _add_config(parts: Subparsers) -> None:
    from barnabas.cli.config import add_change_options, show_or_change

    config = add_command(parts, "config", "show a topic's settings, or change them")
    config.add_argument("name", metavar="TOPIC")
    add_change_options(config)
    add_connection(config)
    config.set_defaults(action=show_or_change, kind="topic", names=[])


def _list(args: Namespace) -> int:
    from fnmatch import fnmatchcase

    with admin_client(args) as admin:
        known = admin.list_topics(include_internal=args.internal)
        names = [name for name in known if not args.pattern or fnmatchcase(name, args.pattern)]
        # One that is deleted just now is no failure of a list.
        found = admin.describe_topics(names, raise_errors=False) if names else {}
    rows = [
        {
            "topic": name,
            "partitions": len(description.partitions),
            "replicas": max((len(p.replicas) for p in description.partitions), default=0),
            "internal": description.is_internal,
            "topicId": _topic_id(description.topic_id),
        }
        for name, description in found.items()
    ]
    print_rows(args.output, rows, ("topic", "partitions", "replicas", *(["internal"] if args.internal else [])))
    return 0


def _topic_id(topic_id: bytes | None) -> str | None:
    from barnabas.protocol.kafka_uuid import to_text

    return None if topic_id is None else to_text(topic_id)


def _describe(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = admin.describe_topics(args.topics, raise_errors=False)
        documents = [_document(admin, found[name]) for name in found]
    if args.output == "json":
        print_json(documents)
    else:
        for number, document in enumerate(documents):
            _print_description(document, is_first=number == 0)
    return report_failures("topic describe", found.errors.values())


def _document(admin: AdminClient, description: TopicDescription) -> dict[str, Any]:
    from barnabas.cli.config import changed_settings
    from barnabas.cli.topic_offsets import bounds_of
    from barnabas.client.admin.configs import ConfigResource

    bounds = bounds_of(admin, description)
    settings = admin.describe_configs([ConfigResource.topic(description.name)], raise_errors=False)
    partitions = []
    for info in description.partitions:
        known = bounds.get(info.partition)
        partitions.append(
            {
                "partition": info.partition,
                "leader": info.leader.id if info.leader else None,
                "leaderEpoch": info.leader_epoch,
                "replicas": [node.id for node in info.replicas],
                "inSyncReplicas": [node.id for node in info.in_sync_replicas],
                "beginningOffset": known.first if known else None,
                "endOffset": known.end if known else None,
            }
        )
    return {
        "topic": description.name,
        "topicId": _topic_id(description.topic_id),
        "internal": description.is_internal,
        "settings": {name: value for entries in settings.values() for name, value in changed_settings(entries)},
        "partitions": partitions,
    }


def _print_description(document: dict[str, Any], *, is_first: bool) -> None:
    settings = " ".join(f"{name}={value}" for name, value in document["settings"].items())
    print(f"{'' if is_first else chr(10)}topic     {printable(document['topic'])}")
    print(f"id        {document['topicId']}")
    print(f"settings  {printable(settings) or 'all at their defaults'}\n")
    columns = ("partition", "leader", "leaderEpoch", "replicas", "inSyncReplicas", "beginningOffset", "endOffset")
    print_table(document["partitions"], columns)


def _create(args: Namespace) -> int:
    from barnabas.client.admin.new_topic import NewTopic
    from barnabas.errors import TopicExistsError

    settings = named_values(args.set, "--set")
    placement = _assignment(args.replica_assignment) if args.replica_assignment else None
    topics = [
        NewTopic(name, args.partitions, args.replication_factor, replica_assignments=placement, configs=settings)
        for name in dict.fromkeys(args.topics)
    ]
    with admin_client(args) as admin:
        results = admin.create_topics(topics, validate_only=args.dry_run, raise_errors=False)
    rows = [
        {
            "topic": created.name,
            "partitions": created.num_partitions,
            "replicas": created.replication_factor,
            "topicId": _topic_id(created.topic_id),
        }
        for created in results.values()
    ]
    print_rows(args.output, rows, ("topic", "partitions", "replicas"))
    errors = results.errors.values()
    return report_failures(
        "topic create", [e for e in errors if not (args.if_not_exists and isinstance(e, TopicExistsError))]
    )


def _assignment(text: str) -> dict[int, list[int]]:
    from barnabas.errors import IllegalArgumentError

    try:
        return {number: [int(i) for i in brokers.split(":")] for number, brokers in enumerate(text.split(","))}
    except ValueError:
        raise IllegalArgumentError(
            f"--replica-assignment {text}: write the brokers of each partition, such as 1:2,2:3"
        ) from None


def _delete(args: Namespace) -> int:
    from barnabas.errors import UnknownTopicOrPartitionError

    with admin_client(args) as admin:
        results = admin.delete_topics(args.topics, raise_errors=False)
    print_rows(args.output, [{"topic": name, "deleted": True} for name in results], ("topic", "deleted"))
    errors = results.errors.values()
    return report_failures(
        "topic delete", [e for e in errors if not (args.if_exists and isinstance(e, UnknownTopicOrPartitionError))]
    )


def _alter(args: Namespace) -> int:
    with admin_client(args) as admin:
        increases = dict.fromkeys(args.topics, args.partitions)
        results = admin.create_partitions(increases, validate_only=args.dry_run, raise_errors=False)
    print_rows(
        args.output, [{"topic": name, "partitions": args.partitions} for name in results], ("topic", "partitions")
    )
    return report_failures("topic alter", results.errors.values())
