"""What a broker knows that is taken for dead, for when it is taken back in the same life (the same registration)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.broker.zookeeper.controller.controller_context import EPOCH_DURING_DELETE, LEADER_DURING_DELETE
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.zookeeper.controller.controller_context import ControllerContext, LiveBroker
    from barnabas.protocol.message import Message


class LastTold:
    """What a broker may have been told when it was given up, and from that what it has missed since.

    `unanswered` are the requests that it has not answered: what they end it may have still.
    """

    def __init__(self, context: ControllerContext, broker: LiveBroker, unanswered: Iterable[Message]) -> None:
        self.epoch = broker.epoch
        self._id = broker.id
        self._topics = {
            topic: (topic_id, list(context.assignments[topic])) for topic, topic_id in context.topic_ids.items()
        }
        self._replicas = [
            (one.partition, context.topic_ids.get(one.partition.topic)) for one in context.replicas_on([broker.id])
        ]
        self._ended, self._stopped = set[TopicPartition](), set[TopicPartition]()
        for request in unanswered:
            if isinstance(request, UpdateMetadataRequest):
                self._ended |= _named(request, lambda state: state.leader == LEADER_DURING_DELETE)
            elif isinstance(request, StopReplicaRequest):
                self._stopped |= _named(request, lambda state: state.delete_partition)

    def ended(self, context: ControllerContext) -> set[TopicPartition]:
        """Return the partitions of topics that are gone; another topic may have the name of one."""
        found = set(self._ended)
        for topic, (topic_id, indexes) in self._topics.items():
            if context.topic_ids.get(topic) != topic_id:
                found.update(TopicPartition(topic, index) for index in indexes)
        return found

    def moved_away(self, context: ControllerContext) -> dict[TopicPartition, int]:
        """Return replicas that are not the broker's any more, with the leader epoch for StopReplica."""
        found = {
            name: context.stop_epoch(name)
            for name in (*(name for name, _ in self._replicas), *self._stopped)
            if self._id not in context.assignment(name).replicas
        }
        gone = [name for name, topic_id in self._replicas if context.topic_ids.get(name.topic) != topic_id]
        return {**found, **dict.fromkeys(gone, EPOCH_DURING_DELETE)}


def _named(request: UpdateMetadataRequest | StopReplicaRequest, is_meant: Callable[[Any], bool]) -> set[TopicPartition]:
    """Return the partitions of a request whose state is meant."""
    return {
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if is_meant(state)
    }
