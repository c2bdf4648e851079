"""The records of a kind of group in `__consumer_offsets`, in Apache Kafka's formats: written, and read back by a table.

Keys are the record type as int16, then the key message; values the version as int16, then the value message; a value of
None is a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from barnabas.errors import ProtocolError

if TYPE_CHECKING:
    from barnabas.broker.coordinator.partition_storage import Record
    from barnabas.broker.groups.group import Group
    from barnabas.broker.groups.modern_group import ModernGroup
    from barnabas.protocol.message import Message

G = TypeVar("G", bound="Group")
M = TypeVar("M")
T = TypeVar("T")

_VERSION = 0


def group_record(key: Message, value: Message | None = None) -> Record:
    """Return a record as it is written; without a value it is a tombstone."""
    encoded = None if value is None else pack(">h", _VERSION) + value.encode(_VERSION)
    return pack(">h", key.API_KEY) + key.encode(0), encoded


class Effect(NamedTuple):
    """What records of one type are made of, and do to a group when they are read back.

    `put` takes the group, the key and the value, which is None where only its being there counts (`value` is None);
    `remove` takes the group and the key.
    """

    key: type[Message]
    value: type[Message] | None
    put: Callable[..., object]
    remove: Callable[..., object]


class RecordTable(Generic[G]):
    """Record type → effect. `ending` is the type of the record whose tombstone ends the whole group."""

    __slots__ = ("effects", "ending", "kind", "tombstones")

    def __init__(
        self, kind: type[G], ending: type[Message], effects: list[Effect], tombstones: Callable[[G], list[Record]]
    ) -> None:
        """`tombstones` gives the end of all that the log may hold of a group."""
        self.kind = kind
        self.ending = ending.API_KEY
        self.tombstones = tombstones
        self.effects = {effect.key.API_KEY: effect for effect in effects}

    def key(self, record_type: int, key: bytes) -> Message:
        """Return a record's key. Raises ProtocolError."""
        return self.effects[record_type].key.decode(key[2:], 0)

    def replay(self, group: G, key: Message, value: bytes | None) -> None:
        """Change `group` as a record says; the caller sees to the end of the whole group. Raises ProtocolError."""
        effect = self.effects[key.API_KEY]
        if value is None:
            effect.remove(group, key)
        elif len(value) < 2 or int.from_bytes(value[:2], "big") != _VERSION:
            raise ProtocolError(f"A value of {type(key).__name__} in __consumer_offsets has no version, or not 0")
        else:
            effect.put(group, key, None if effect.value is None else effect.value.decode(value[2:], _VERSION))


def group_id_of(key: Message) -> str:
    """Return the group that a record with this key belongs to."""
    group_id: str = getattr(key, "group_id")  # noqa: B009 - the key of every effect has it, their base class has not
    return group_id


# --- what effects have in common


class TargetEpochValue(Protocol):
    """For which group epoch, and when (epoch ms), a target assignment was computed."""

    assignment_epoch: int
    assignment_timestamp: int


class MemberKey(Protocol):
    """A record of one member."""

    member_id: str


def with_epochs(partitions: Sequence[int], epochs: Sequence[int] | None, member_epoch: int) -> dict[int, int]:
    """Return number → since which epoch a member has it."""
    # Brokers before Apache Kafka 4.3 wrote no assignment epochs.
    if epochs is None or len(epochs) != len(partitions):
        return dict.fromkeys(partitions, member_epoch)
    return dict(zip(partitions, epochs, strict=True))


def put_target_epoch(group: ModernGroup[M, T], key: Message, value: TargetEpochValue) -> None:
    """Note that the target assignment is complete."""
    group.target_epoch, group.target_timestamp_ms = value.assignment_epoch, value.assignment_timestamp


def drop_target(group: ModernGroup[M, T], key: MemberKey) -> None:
    """Forget a member's part of the target assignment."""
    group.targets.pop(key.member_id, None)


def nothing(group: Group, key: Message) -> None:
    """Leave the end of the whole group to the caller."""
