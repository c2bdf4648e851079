"""The fetch session of a follower with its leader (KIP-227): only what changes is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.epochs import INITIAL_EPOCH, NO_SESSION
from barnabas.protocol.messages.fetch_request import FetchTopic, ForgottenTopic
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest
    from barnabas.protocol.messages.fetch_response import FetchResponse, PartitionData

_LARGEST_EPOCH = 2**31 - 1


class ReplicaFetchSession:
    """What the leader knows of the partitions that a follower fetches."""

    __slots__ = ("_epoch", "_id", "_names", "_sent")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._sent: dict[TopicPartition, tuple[bytes, tuple[int, ...]]] = {}
        self._names: dict[bytes, str] = {}

    def reset(self) -> None:
        """Begin a new session with the next request; the leader forgets the old one then, if it has it."""
        self._epoch = INITIAL_EPOCH
        self._sent = {}

    @property
    def is_new(self) -> bool:
        """Whether the leader knows nothing of it yet: the next request has to name every partition."""
        return self._epoch == INITIAL_EPOCH

    def fill(
        self,
        request: FetchRequest,
        wanted: Mapping[TopicPartition, tuple[bytes, FetchPartition]],
        gone: Iterable[TopicPartition],
    ) -> bool:
        """Say in the request what the leader does not know; whether there is anything to ask for at all.

        `wanted` are partitions that may be asked for otherwise than before, `gone` those that are asked for no more.
        """
        if not wanted and not self._sent:
            return False
        request.session_id, request.session_epoch = self._id, self._epoch
        topics: dict[bytes, FetchTopic] = {}
        for name, (topic_id, partition) in wanted.items():
            sent = (topic_id, _fields(partition))
            if self._sent.get(name) != sent:
                self._sent[name] = sent
                self._names[topic_id] = name.topic
                topic = topics.setdefault(topic_id, FetchTopic(topic=name.topic, topic_id=topic_id))
                topic.partitions.append(partition)
        request.topics = list(topics.values())
        forgotten: dict[bytes, ForgottenTopic] = {}
        for name in gone:
            if name in wanted or name not in self._sent:
                continue
            topic_id, _ = self._sent.pop(name)
            topic_gone = forgotten.setdefault(topic_id, ForgottenTopic(topic=name.topic, topic_id=topic_id))
            topic_gone.partitions.append(name.partition)
        request.forgotten_topics_data = list(forgotten.values())
        return True

    def handle_response(self, response: FetchResponse) -> dict[TopicPartition, PartitionData] | None:
        """Return the partitions of a response; None for an error, upon which the session begins anew."""
        if response.error_code:
            self.reset()
            return None
        if response.session_id == NO_SESSION:
            self._id = NO_SESSION
            self.reset()
        else:
            self._id = response.session_id
            self._epoch = 1 if self._epoch == _LARGEST_EPOCH else self._epoch + 1
        return {
            TopicPartition(self._names.get(topic.topic_id, topic.topic), partition.partition_index): partition
            for topic in response.responses
            for partition in topic.partitions
        }


def _fields(partition: FetchPartition) -> tuple[int, ...]:
    return (
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        partition.log_start_offset,
        partition.high_watermark,
    )
