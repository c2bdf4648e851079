"""The kinds of groups that write records of their own: which types those have, and where their table is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from barnabas.broker.groups.coordinator_records import group_metadata_tombstone
from barnabas.broker.groups.group import CLASSIC, CONSUMER, SHARE, STREAMS

if TYPE_CHECKING:
    from barnabas.broker.coordinator.partition_storage import Record
    from barnabas.broker.groups.group import Group
    from barnabas.broker.groups.record_table import RecordTable

#: Kind → the types of its records.
RECORD_TYPES = {
    CONSUMER: frozenset((3, 4, 5, 6, 7, 8, 16)),
    SHARE: frozenset((10, 11, 12, 13, 14, 15)),
    STREAMS: frozenset((17, 19, 20, 21, 22, 23)),
}
#: Record type → kind.
KIND_OF = {record_type: kind for kind, types in RECORD_TYPES.items() for record_type in types}


def table_of(kind: str) -> RecordTable[Any]:
    """Return the records of a kind."""
    # Most brokers see groups of one kind: the code of the others is loaded when the first comes.
    found: RecordTable[Any] = import_module(f"barnabas.broker.groups.{kind}_group_records").TABLE
    return found


def tombstones_of(group: Group) -> list[Record]:
    """Give the tombstones of a group without members, of any kind; its offsets stay."""
    if group.TYPE == CLASSIC:
        return [group_metadata_tombstone(group.group_id)]
    return table_of(group.TYPE).tombstones(group)
