"""A share group (KIP-932): members, epochs, the target assignment, and which share-partitions have a state.

Members share partitions, so none waits for another to give one up: a member has its part of the target at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas import errors
from barnabas.broker.groups.group import SHARE
from barnabas.broker.groups.modern_group import ModernGroup
from barnabas.protocol.epochs import JOIN_EPOCH

EMPTY = "Empty"
STABLE = "Stable"

#: Topic id → partitions.
Partitions = Mapping[bytes, frozenset[int]]
_NOTHING: Partitions = {}


class ShareGroupMember(NamedTuple):
    """What the coordinator knows of one member; it never changes, `_replace` makes the next one."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    assigned: Partitions = _NOTHING

    @property
    def metadata(self) -> tuple[object, ...]:
        """What its metadata record holds, to compare."""
        return self[:5]


class SharedTopic(NamedTuple):
    """Partitions of one topic; `since_ms` (epoch ms) is when they came to be where they are."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


#: Topic id → partitions of it.
SharedTopics = Mapping[bytes, SharedTopic]


class StatePartitions(NamedTuple):
    """What the share coordinator has of the group's share-partitions, as far as the group knows.

    It was asked for `initializing` and has not answered yet, it has `initialized`; topics that are `deleting` (topic
    id → name) are to be forgotten.
    """

    initializing: SharedTopics = {}  # noqa: RUF012 - never changed
    initialized: SharedTopics = {}  # noqa: RUF012 - never changed
    deleting: Mapping[bytes, str] = {}


class ShareGroup(ModernGroup[ShareGroupMember, Partitions]):
    """The state of one share group. Its methods change what is in memory only."""

    __slots__ = ("states",)

    TYPE = SHARE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.states = StatePartitions()

    @property
    def state_name(self) -> str:
        """See `Group`."""
        return STABLE if self.members else EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """See `Group`."""
        return False

    @property
    def listed_protocol_type(self) -> str:
        """See `Group`."""
        return SHARE

    def check_has_offsets(self) -> None:
        """See `Group`."""
        raise errors.GroupIdNotFoundError(f"Group {self.group_id} is a share group, which has no committed offsets.")

    def is_subscribed_to(self, topic: str) -> bool:
        """See `Group`."""
        return any(topic in member.subscribed_topic_names for member in self.members.values())

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics that members subscribe to."""
        return frozenset().union(*(member.subscribed_topic_names for member in self.members.values()))

    def lacks_initialized(self) -> bool:
        """Whether partitions that the share coordinator has by now are in no member's target, or too many are."""
        if not self.members or not self.states.initialized:
            return False
        targeted: dict[bytes, frozenset[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                targeted[topic_id] = targeted.get(topic_id, frozenset()) | partitions
        names = self.subscribed_topics
        return any(
            topic.name in names and targeted.get(topic_id) != topic.partitions
            for topic_id, topic in self.states.initialized.items()
        )


def added(topics: SharedTopics, more: SharedTopics) -> dict[bytes, SharedTopic]:
    """Return the partitions of both."""
    found = dict(topics)
    for topic_id, topic in more.items():
        known = found.get(topic_id)
        found[topic_id] = topic if known is None else topic._replace(partitions=known.partitions | topic.partitions)
    return found


def removed(topics: SharedTopics, partitions: Partitions) -> dict[bytes, SharedTopic]:
    """Return the partitions without these."""
    found = {}
    for topic_id, topic in topics.items():
        left = topic.partitions - partitions.get(topic_id, frozenset())
        if left:
            found[topic_id] = topic._replace(partitions=left)
    return found
