"""Members of consumer groups (KIP-848) on the coordinator of `harness`, each as simple as its name says."""

from __future__ import annotations

from typing import Any

from barnabas import errors
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.protocol.messages.consumer_group_describe_response import DescribedGroup
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from tests.unit.broker.groups.harness import GROUP, Harness, MemoryStorage

Assigned = dict[str, set[int]]


class ConsumerHarness(Harness):
    """A harness with topics; without other settings the target assignment is computed at once."""

    def __init__(self, storage: MemoryStorage | None = None, seed: int = 1, **settings: object) -> None:
        settings.setdefault("group_consumer_assignment_interval_ms", 0)
        super().__init__(storage, seed, **settings)
        self._topic_number = 0
        self.topic("t", 4)

    def topic(self, name: str, partitions: int) -> None:
        """Create a topic, or enlarge it."""
        known = self.topics.topic(name)
        if known is None:
            self._topic_number += 1
            topic_id = self._topic_number.to_bytes(16, "big")
        else:
            topic_id = known.id
        self.topics.put_topics([TopicMetadata(name, topic_id, partitions, {}, 0)])

    def delete_topic(self, name: str) -> None:
        self.topics.delete_topics([name])
        self.coordinator.on_topic_deleted(name, self.at)

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.topic(name)
        assert topic is not None
        return topic.id

    def send(self, version: int = 1, client_id: str = "client", **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat as it is; errors as the handler answers them."""
        fields.setdefault("group_id", GROUP)
        request = ConsumerGroupHeartbeatRequest(**fields)
        return self.coordinator.consumer_group_heartbeat(self.context(version, client_id), request)

    def group(self, group: str = GROUP) -> ConsumerGroup:
        """What the coordinator has in memory."""
        found = self.coordinator._store.groups[group]
        assert isinstance(found, ConsumerGroup)
        return found

    def described(self, group: str = GROUP) -> DescribedGroup:
        return self.coordinator.describe_consumer_group(group)

    def group_state(self, group: str = GROUP) -> str:
        return self.described(group).group_state

    def named(self, assignment: Any) -> Assigned:
        """An assignment by topic names."""
        found = {}
        for topic in assignment.topic_partitions:
            known = self.topics.topic_by_id(topic.topic_id)
            found[known.name if known is not None else "?"] = set(topic.partitions)
        return found

    def settle(self, *members: Consumer, rounds: int = 10) -> None:
        """Everybody sends heartbeats, and does as told, until nothing changes any more."""
        for _ in range(rounds):
            before = [(member.epoch, member.owned) for member in members]
            for member in members:
                member.heartbeat()
            if before == [(member.epoch, member.owned) for member in members]:
                return
        raise AssertionError(f"not settled after {rounds} rounds: {members}")


class Consumer:
    """A member that does what it is told: `owned` is what it has, by topic names."""

    def __init__(
        self,
        harness: ConsumerHarness,
        member_id: str,
        topics: list[str] | None = None,
        *,
        regex: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        group: str = GROUP,
        rebalance_timeout_ms: int = 60_000,
    ) -> None:
        self.harness = harness
        self.id = member_id
        self.topics = ["t"] if topics is None and regex is None else topics
        self.regex = regex
        self.instance = instance
        self.rack = rack
        self.assignor = assignor
        self.group = group
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.epoch = 0
        self.owned: Assigned = {}
        self._reported: Assigned | None = None

    def __repr__(self) -> str:
        return f"<{self.id} epoch={self.epoch} owned={self.owned}>"

    def join(self) -> ConsumerGroupHeartbeatResponse:
        """Join, or join again."""
        self.epoch, self.owned = 0, {}
        return self.heartbeat(full=True)

    def heartbeat(self, full: bool = False, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat with what has changed, or with everything; the member does what the answer says."""
        if full:
            fields = {**self._all(), **fields}
        elif self.owned != self._reported:
            fields.setdefault("topic_partitions", self._owned())
        response = self.harness.send(
            group_id=self.group, member_id=self.id, member_epoch=self.epoch, instance_id=self.instance, **fields
        )
        if fields.get("topic_partitions") is not None:
            self._reported = dict(self.owned)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = self.harness.named(response.assignment)
        return response

    def subscribe(self, topics: list[str]) -> ConsumerGroupHeartbeatResponse:
        """Read other topics from now on."""
        self.topics = topics
        return self.heartbeat(subscribed_topic_names=topics)

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """Leave for good, or (-2) for a while."""
        return self.harness.send(group_id=self.group, member_id=self.id, member_epoch=epoch, instance_id=self.instance)

    def error(self, **fields: Any) -> type[errors.KafkaError] | None:
        """What a heartbeat is refused with."""
        try:
            self.heartbeat(**fields)
        except errors.KafkaError as error:
            return type(error)
        return None

    def commit(self, offset: int, partition: int = 0, epoch: int | None = None, version: int = 9) -> Any:
        """Commit for a partition of "t"."""
        return self.harness.commit(
            {("t", partition): offset},
            self.id,
            self.epoch if epoch is None else epoch,
            group=self.group,
            version=version,
        )

    def _all(self) -> dict[str, Any]:
        return {
            "rack_id": self.rack,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": self._owned(),
        }

    def _owned(self) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=self.harness.topic_id(name), partitions=sorted(partitions))
            for name, partitions in self.owned.items()
            if self.harness.topics.topic(name) is not None
        ]
