"""What all kinds of groups have in common; KIP-848 lets groups of several protocols live under the same kind of id."""

from __future__ import annotations

from typing import Self

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"

#: The protocol type of consumers.
CONSUMER_PROTOCOL_TYPE = "consumer"


class Group:
    """One group of this broker, of any protocol."""

    __slots__ = ("group_id",)

    #: As ListGroups shows it.
    TYPE = ""

    def __init__(self, group_id: str):
        self.group_id = group_id

    def copy(self) -> Self:
        """Return a group that can change on its own; the members are the same objects."""
        kind = type(self)
        twin = kind.__new__(kind)
        for ancestor in kind.__mro__:
            for name in getattr(ancestor, "__slots__", ()):
                value = getattr(self, name)
                setattr(twin, name, value.copy() if isinstance(value, dict | set) else value)
        return twin

    @property
    def state_name(self) -> str:
        """The group's state as clients see it."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        raise NotImplementedError

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers."""
        raise NotImplementedError

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type as ListGroups shows it; empty when unknown."""
        raise NotImplementedError

    def check_has_offsets(self) -> None:
        """Raise GroupIdNotFoundError for a group of a kind that has no committed offsets."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading `topic`."""
        raise NotImplementedError
