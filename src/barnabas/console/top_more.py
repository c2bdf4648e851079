"""What `barnabas top` asks the cluster beside a sample: transactions, and the clients that are members of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.admin import GroupType
from barnabas.console.commands import Commands
from barnabas.console.group_kinds import described_group
from barnabas.console.top_view import Client, More
from barnabas.console.transactions import transactions
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.admin import GroupDescription
    from barnabas.aio import AdminClient
    from barnabas.console.sampler import Sample

#: Groups that are described for one look, those with members first.
MOST_GROUPS = 200


async def more_of(admin: AdminClient, sample: Sample, wanted: Iterable[str]) -> More:
    """Return what the tables of these names need beside a sample. Raises `KafkaError`."""
    names = set(wanted)
    open_ones = (await transactions(admin, Commands(())))["transactions"] if "transactions" in names else ()
    return More(open_ones, await _clients(admin, sample) if "clients" in names else ())


async def clients_of(admin: AdminClient, group: str) -> list[Client]:
    """Return the members of one group of any kind; none of one that is gone meanwhile."""
    try:
        return _members(await described_group(admin, group))
    except KafkaError:
        return []


async def _clients(admin: AdminClient, sample: Sample) -> list[Client]:
    kinds = {name: found.listing.type for name, found in sample.groups.items() if _has_members(found.listing.state)}
    known = [name for name, kind in kinds.items() if kind not in (GroupType.SHARE, GroupType.STREAMS)][:MOST_GROUPS]
    described = await admin.describe_groups(known, raise_errors=False) if known else {}
    found = [client for group in described.values() for client in _members(group)]
    for name in [name for name in kinds if name not in known][: MOST_GROUPS - len(known)]:
        found += await clients_of(admin, name)
    return found


def _has_members(state: object) -> bool:
    return getattr(state, "name", "") not in ("EMPTY", "DEAD")


def _members(group: GroupDescription) -> list[Client]:
    return [
        Client(member.client_id, member.host, group.group_id, member.member_id, len(member.assignment))
        for member in group.members
    ]
