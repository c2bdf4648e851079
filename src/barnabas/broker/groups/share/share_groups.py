"""All that the group coordinator has share groups do: one object, made when it is told how their states are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.share.description import describe
from barnabas.broker.groups.share.heartbeat import ShareMembership
from barnabas.broker.groups.share.offsets import EndOffset, ShareOffsets
from barnabas.broker.groups.share.state_partitions import ShareStates
from barnabas.broker.groups.share_group import ShareGroup

if TYPE_CHECKING:
    from barnabas.broker.coordinator.timers import TimerQueue
    from barnabas.broker.groups.group import Group
    from barnabas.broker.groups.group_coordinator_config import GroupSettings
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.groups.topic_image import TopicImage
    from barnabas.broker.instant import Instant
    from barnabas.broker.share.persister import Persister, Tell
    from barnabas.protocol.messages.share_group_describe_response import DescribedGroup


class ShareGroups:
    """Members, offsets and descriptions of share groups."""

    __slots__ = ("_image", "_states", "_store", "membership", "offsets")

    def __init__(
        self,
        settings: GroupSettings,
        store: GroupStore,
        timers: TimerQueue,
        image: TopicImage,
        persister: Callable[[], Persister],
        end_offset: EndOffset,
    ) -> None:
        self._store = store
        self._image = image
        self._states = ShareStates(store, image, persister)
        self.membership = ShareMembership(settings, store, timers, image, self._states)
        self.offsets = ShareOffsets(store, image, persister, self._states, end_offset)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return a group as ShareGroupDescribe shows it. Raises GroupIdNotFoundError."""
        group = self._store.group(group_id)
        if not isinstance(group, ShareGroup):
            raise errors.GroupIdNotFoundError(f"Group {group_id} is not a share group.")
        return describe(group, self._image)

    def loaded(self, group: Group, at: Instant) -> None:
        """Take up a group that comes from the log."""
        if isinstance(group, ShareGroup):
            self.membership.loaded(group, at)

    def unload(self, group: Group) -> None:
        """Let go of a group that another broker coordinates."""
        if isinstance(group, ShareGroup):
            self.membership.unload(group)

    def on_topic_deleted(self, name: str, at: Instant) -> None:
        """Take a topic that is gone out of what groups note of their share-partitions."""
        for group in [group for group in self._store.groups.values() if isinstance(group, ShareGroup)]:
            known = {**group.states.initializing, **group.states.initialized}
            gone = [topic_id for topic_id, topic in known.items() if topic.name == name]
            for topic_id in gone:
                current = self._store.groups.get(group.group_id)
                if isinstance(current, ShareGroup) and self._image.topic_by_id(topic_id) is None:
                    self._states.forget_topic(current, topic_id, at)

    def forget_states(self, group_id: str, at: Instant, tell: Tell) -> None:
        """Have the states of a group without members forgotten; a group that is none of ours has none."""
        group = self._store.groups.get(group_id)
        if not isinstance(group, ShareGroup) or not group.is_empty or not any(group.states):
            tell(None)
            return
        topic_ids = list(dict.fromkeys(topic_id for topics in group.states for topic_id in topics))
        try:
            self._states.delete(group, topic_ids, at, tell)
        except errors.KafkaError as problem:
            tell(problem)

    def check_deletable(self, group_id: str) -> None:
        """Raise CoordinatorNotAvailableError for a share group that still has states (`forget_states`)."""
        group = self._store.groups.get(group_id)
        if isinstance(group, ShareGroup) and group.is_empty and any(group.states):
            raise errors.CoordinatorNotAvailableError(f"The states of group {group_id} are being deleted.")
