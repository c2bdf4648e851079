"""Members of streams groups (KIP-1071) on the coordinator of `harness`."""

from __future__ import annotations

from typing import Any

from barnabas import errors
from barnabas.broker.groups.streams_group import StreamsGroup
from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.protocol.messages.streams_group_describe_response import DescribedGroup
from barnabas.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from barnabas.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from tests.support.streams_member import StreamsMember, settle
from tests.unit.broker.groups.harness import GROUP, Harness, MemoryStorage

STALE, NO_SOURCE, WRONG_PARTITIONS, NO_INTERNAL, SHUTDOWN, DELAYED = range(6)


class StreamsHarness(Harness):
    """A harness whose groups do not wait; `created` are internal topics that were asked for, which are made at once."""

    makes_topics = True

    def __init__(self, storage: MemoryStorage | None = None, seed: int = 1, **settings: object) -> None:
        settings.setdefault("group_streams_assignment_interval_ms", 0)
        settings.setdefault("group_streams_initial_rebalance_delay_ms", 0)
        super().__init__(storage, seed, **settings)
        self._topic_number = 0
        self.created: dict[str, int] = {}
        self.topic("lines", 4)

    def topic(self, name: str, partitions: int) -> None:
        """Create a topic, or enlarge it."""
        known = self.topics.topic(name)
        self._topic_number += 1
        topic_id = self._topic_number.to_bytes(16, "big") if known is None else known.id
        self.topics.put_topics([TopicMetadata(name, topic_id, partitions, {}, 0)])

    def send(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        """Answer as the handler does; missing internal topics are there afterwards."""
        try:
            groups = self.coordinator.streams_groups(request.group_id)
            response, missing = groups.heartbeat(self.context(0), request)
        except errors.KafkaError as error:
            return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=str(error))
        for topic in missing if self.makes_topics else ():
            self.created[topic.name] = topic.partitions
            self.topic(topic.name, topic.partitions)
        return response

    def member(self, member_id: str, *args: Any, **options: Any) -> StreamsMember:
        return StreamsMember(self.send, member_id, *args, **options)

    def settled(self, *names: str, **options: Any) -> list[StreamsMember]:
        members = [self.member(name, **options) for name in names]
        settle(*members)
        return members

    def group(self, group: str = GROUP) -> StreamsGroup:
        """What the coordinator has in memory."""
        found = self.coordinator._store.groups[group]
        assert isinstance(found, StreamsGroup)
        return found

    def described(self, group: str = GROUP) -> DescribedGroup:
        return self.coordinator.streams_groups(group).describe(group)

    def group_state(self, group: str = GROUP) -> str:
        return self.described(group).group_state
