"""`barnabas group`: list, describe and delete groups; move their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli import group_offsets, share_group, streams_group
from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.committed_offsets import committed_partitions
from barnabas.cli.connection import admin_client
from barnabas.cli.output import print_json, print_rows, print_table, printable, report_failures, report_silent_brokers
from barnabas.client.admin.groups import GroupType, MemberToRemove
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.groups import GroupDescription, MemberDescription

_EXAMPLES = """\
  barnabas group describe tower
  barnabas group offsets reset tower --topic flights --to-datetime -2h            shows what it would do
  barnabas group offsets reset tower --topic flights --to-datetime -2h --execute  does it
"""

#: What tells of groups that are not of consumers.
_OTHER_KINDS: dict[GroupType | None, Any] = {GroupType.SHARE: share_group, GroupType.STREAMS: streams_group}


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list, describe and delete groups; move their offsets"
    parts = add_command(subparsers, "group", about, examples=_EXAMPLES).add_subparsers(metavar="ACTION", required=True)

    listing = add_command(parts, "list", "list groups")
    listing.add_argument("--state", action="append", default=[], metavar="STATE", help="only these, such as Empty")
    listing.add_argument("--type", action="append", default=[], metavar="TYPE", help="only these, such as classic")
    add_connection(listing)
    listing.set_defaults(action=_list)

    describe = add_command(parts, "describe", "show state, members, tasks, topology, and the lag of each partition")
    describe.add_argument("groups", metavar="GROUP", nargs="+")
    add_connection(describe)
    describe.set_defaults(action=_describe)

    delete = add_command(parts, "delete", "delete groups without members, and their offsets")
    delete.add_argument("groups", metavar="GROUP", nargs="+")
    add_connection(delete)
    delete.set_defaults(action=_delete)

    removing = add_command(parts, "remove-members", "make members leave a group")
    removing.add_argument("group", metavar="GROUP")
    removing.add_argument("members", metavar="MEMBER", nargs="*", help="member ids, or instance ids of static members")
    removing.add_argument("--all", action="store_true", help="all members")
    add_connection(removing)
    removing.set_defaults(action=_remove_members)

    group_offsets.add_parsers(parts)


def _list(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = admin.list_groups(states=args.state, types=args.type, raise_errors=False)
    outcome = report_silent_brokers("group list", found)
    rows = [
        {"group": group.group_id, "state": group.state, "type": group.type, "protocolType": group.protocol_type}
        for group in found.values()
    ]
    print_rows(args.output, rows, ("group", "state", "type", "protocolType"))
    return outcome


def _remove_members(args: Namespace) -> int:
    if bool(args.members) == args.all:
        raise IllegalArgumentError("name the members, or give --all")
    with admin_client(args) as admin:
        there = admin.describe_groups([args.group])[args.group].members
        wanted = there if args.all else [_member(there, name) for name in args.members]
        chosen = [MemberToRemove(member.group_instance_id, member.member_id) for member in wanted]
        if not chosen:
            print_rows(args.output, [], ("member", "removed"))
            return 0
        removed = admin.remove_members_from_consumer_group(args.group, chosen, raise_errors=False)
    print_rows(args.output, [{"member": str(member), "removed": True} for member in removed], ("member", "removed"))
    return report_failures("group remove-members", removed.errors.values())


def _member(there: Iterable[MemberDescription], name: str) -> MemberDescription:
    found = next((member for member in there if name in (member.member_id, member.group_instance_id)), None)
    if found is None:
        raise IllegalArgumentError(f"the group has no member {name!r}: `barnabas group describe` lists them")
    return found


def _describe(args: Namespace) -> int:
    with admin_client(args) as admin:
        types = share_group.types_of(admin, args.groups)
        told = {name: _OTHER_KINDS[kind].document(admin, name) for name, kind in types.items() if kind in _OTHER_KINDS}
        found = admin.describe_groups([name for name in args.groups if name not in told], raise_errors=False)
        told.update({group.group_id: _document(admin, group) for group in found.values()})
        documents = [told[name] for name in args.groups if name in told]
    if args.output == "json":
        print_json(documents)
    else:
        for number, document in enumerate(documents):
            other = _OTHER_KINDS.get(types.get(document["group"]))
            prints = _print_description if other is None else other.print_description
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
    readers = {partition: member for member in group.members for partition in member.assignment}
    partitions = committed_partitions(admin, group.group_id, readers)
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
