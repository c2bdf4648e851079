"""All that the group coordinator has streams groups do; what does it is loaded when the first such group is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.group import STREAMS

if TYPE_CHECKING:
    from barnabas.broker.coordinator.timers import TimerQueue
    from barnabas.broker.groups.group import Group
    from barnabas.broker.groups.group_coordinator_config import GroupSettings
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.groups.streams.heartbeat import HeartbeatResult, StreamsMembership
    from barnabas.broker.groups.topic_image import TopicImage
    from barnabas.broker.instant import Instant
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.streams_group_describe_response import DescribedGroup
    from barnabas.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest


class StreamsGroups:
    """Members and descriptions of streams groups."""

    __slots__ = ("_image", "_membership", "_settings", "_store", "_timers")

    def __init__(self, settings: GroupSettings, store: GroupStore, timers: TimerQueue, image: TopicImage) -> None:
        self._settings = settings
        self._store = store
        self._timers = timers
        self._image = image
        self._membership: StreamsMembership | None = None

    @property
    def rebalances(self) -> int:
        """How many group epochs heartbeats have begun."""
        return 0 if self._membership is None else self._membership.rebalances

    @property
    def membership(self) -> StreamsMembership:
        """Who is in which group."""
        if self._membership is None:
            from barnabas.broker.groups.streams.heartbeat import StreamsMembership

            self._membership = StreamsMembership(self._settings, self._store, self._timers, self._image)
        return self._membership

    def _check_protocol(self) -> None:
        if STREAMS not in self._settings.rebalance_protocols:
            raise errors.UnsupportedVersionError(
                "The streams protocol is switched off: group.coordinator.rebalance.protocols does not list it."
            )

    def heartbeat(self, context: RequestContext, request: StreamsGroupHeartbeatRequest) -> HeartbeatResult:
        """Join, live in or leave a streams group. Raises KafkaError."""
        from barnabas.broker.groups.streams.heartbeat_validation import check_heartbeat

        self._check_protocol()
        check_heartbeat(request)
        return self.membership.heartbeat(context, request, context.instant)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return a group as StreamsGroupDescribe shows it. Raises KafkaError."""
        from barnabas.broker.groups.streams.description import describe
        from barnabas.broker.groups.streams_group import StreamsGroup

        self._check_protocol()
        group = self._store.group(group_id)
        if not isinstance(group, StreamsGroup):
            raise errors.GroupIdNotFoundError(f"Group {group_id} is not a streams group.")
        return describe(group, self._image)

    def loaded(self, group: Group, at: Instant) -> None:
        """Take up a group that comes from the log."""
        self.membership.loaded(group, at)  # type: ignore[arg-type]  # by its type

    def unload(self, group: Group) -> None:
        """Let go of a group that another broker coordinates."""
        self.membership.unload(group)  # type: ignore[arg-type]  # by its type
