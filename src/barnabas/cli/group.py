"""`barnabas group`: list, describe and delete groups; move their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli import group_offsets, share_group
from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import print_json, print_rows, print_table, printable, report_failures

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.groups import GroupDescription

_EXAMPLES = """\
  barnabas group describe tower
  barnabas group offsets reset tower --topic flights --to-datetime -2h            shows what it would do
  barnabas group offsets reset tower --topic flights --to-datetime -2h --execute  does it
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list, describe and delete groups; move their offsets"
    parts = add_command(subparsers, "group", about, examples=_EXAMPLES).add_subparsers(metavar="ACTION", required=True)

    listing = add_command(parts, "list", "list groups")
    listing.add_argument("--state", action="append", default=[], metavar="STATE", help="only these, such as Empty")
    listing.add_argument("--type", action="append", default=[], metavar="TYPE", help="only these, such as classic")
    add_connection(listing)
    listing.set_defaults(action=_list)

    describe = add_command(parts, "describe", "show state, members, and the lag of each partition")
    describe.add_argument("groups", metavar="GROUP", nargs="+")
    add_connection(describe)
    describe.set_defaults(action=_describe)

    delete = add_command(parts, "delete", "delete groups without members, and their offsets")
    delete.add_argument("groups", metavar="GROUP", nargs="+")
    add_connection(delete)
    delete.set_defaults(action=_delete)

    group_offsets.add_parsers(parts)


def _list(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = admin.list_groups(states=args.state, types=args.type)
    rows = [
        {"group": group.group_id, "state": group.state, "type": group.type, "protocolType": group.protocol_type}
        for group in found.values()
    ]
    print_rows(args.output, rows, ("group", "state", "type", "protocolType"))
    return 0


def _describe(args: Namespace) -> int:
    with admin_client(args) as admin:
        shared = share_group.share_groups(admin, args.groups)
        found = admin.describe_groups([name for name in args.groups if name not in shared], raise_errors=False)
        of_consumers = {group.group_id: _document(admin, group) for group in found.values()}
        of_queues = {name: share_group.document(admin, name) for name in shared}
        documents = [told for name in args.groups if (told := of_consumers.get(name) or of_queues.get(name))]
    if args.output == "json":
        print_json(documents)
    else:
        for number, document in enumerate(documents):
            prints = share_group.print_description if document["group"] in shared else _print_description
            prints(document, is_first=number == 0)
    return report_failures("group describe", found.errors.values())


def _document(admin: AdminClient, group: GroupDescription) -> dict[str, Any]:
    members = [
        {
            "memberId": member.member_id,
            "groupInstanceId": member.group_instance_id,
            "clientId": member.client_id,
            "host": member.host,
            "assignment": [str(partition) for partition in sorted(member.assignment)],
        }
        for member in group.members
    ]
    partitions = _partitions(admin, group)
    lags = [row["lag"] for row in partitions if row["lag"] is not None]
    return {
        "group": group.group_id,
        "state": group.state,
        "protocolType": group.protocol_type,
        "protocol": group.protocol,
        "lag": sum(lags),
        "members": members,
        "partitions": partitions,
    }


def _partitions(admin: AdminClient, group: GroupDescription) -> list[dict[str, Any]]:
    """Return what was committed or is assigned: how far the group is, how far the log, and who reads."""
    from barnabas.cli.topic_offsets import partition_bounds

    committed = admin.list_consumer_group_offsets(group.group_id)
    readers = {partition: member for member in group.members for partition in member.assignment}
    wanted = sorted(committed.keys() | readers.keys())
    there = admin.describe_topics({p.topic for p in wanted}, raise_errors=False) if wanted else {}
    bounds = partition_bounds(admin, [partition for partition in wanted if partition.topic in there])
    rows = []
    for partition in wanted:
        offset = committed[partition].offset if partition in committed else None
        end = bounds[partition].end if partition in bounds else None
        reader = readers.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committedOffset": offset,
                "endOffset": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": reader.client_id if reader else None,
                "memberId": reader.member_id if reader else None,
                "metadata": committed[partition].metadata if partition in committed else None,
            }
        )
    return rows


def _print_description(document: dict[str, Any], *, is_first: bool) -> None:
    print(f"{'' if is_first else chr(10)}group     {printable(document['group'])}")
    print(f"state     {document['state']}, {len(document['members'])} members, lag {document['lag']}")
    print(f"protocol  {printable(document['protocol'] or '-')} ({printable(document['protocolType'] or '-')})")
    if document["partitions"]:
        print()
        columns = ("topic", "partition", "committedOffset", "endOffset", "lag", "member")
        print_table(document["partitions"], columns)
    if document["members"]:
        print()
        print_table(document["members"], ("memberId", "groupInstanceId", "host", "assignment"))


def _delete(args: Namespace) -> int:
    with admin_client(args) as admin:
        results = admin.delete_groups(args.groups, raise_errors=False)
    print_rows(args.output, [{"group": name, "deleted": True} for name in results], ("group", "deleted"))
    return report_failures("group delete", results.errors.values())
