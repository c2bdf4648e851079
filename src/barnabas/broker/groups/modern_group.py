"""What groups to whose members the coordinator assigns have in common (KIP-848): consumer, share and streams groups.

Three epochs drive one. The group epoch grows with every change that needs a new assignment; the target assignment has
the group epoch it was computed for; each member has the epoch of the target that it has reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas import errors
from barnabas.broker.groups.group import Group

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant

M = TypeVar("M")
T = TypeVar("T")
V = TypeVar("V")

_NEVER_CHECKED = -1


class ModernGroup(Group, Generic[M, T]):
    """A group of members `M`, each with a part `T` of the target assignment."""

    __slots__ = (
        "epoch",
        "members",
        "metadata_hash",
        "metadata_version",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        #: Members that join are in epoch 0: a group begins with 1, and so it does in Apache Kafka.
        self.epoch = 1
        #: Of the topics that the members need, when the epoch began.
        self.metadata_hash = 0
        #: The version of the topics that `metadata_hash` was last compared with; not in the log.
        self.metadata_version = _NEVER_CHECKED
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        #: Member id → its part of the target assignment.
        self.targets: dict[str, T] = {}
        #: Member id → member, in the order they came.
        self.members: dict[str, M] = {}

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {self.group_id} {self.state_name} epoch={self.epoch} members={len(self.members)}>"

    @property
    def is_empty(self) -> bool:
        """See `Group`."""
        return not self.members

    def member(self, member_id: str) -> M:
        """Return a member. Raises UnknownMemberIdError."""
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def is_target_due(self, interval_ms: int, at: Instant) -> bool:
        """Whether the last target assignment is so old that another may be computed."""
        age_ms = at.now_ms - self.target_timestamp_ms
        # A clock that was set back must not keep the group from its assignment.
        return not 0 <= age_ms < interval_ms


def said(value: V | None, before: V) -> V:
    """Return what a member says of itself, which is as before where it says nothing."""
    return before if value is None else value
