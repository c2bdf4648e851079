"""Fetch sessions (KIP-227): each fetch names only the partitions that changed since the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.errors import NONE, FetchSessionIdNotFoundError, name_of
from barnabas.network.log_context import client_logger
from barnabas.protocol.epochs import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.fetch_response import FetchResponse

log = client_logger("barnabas.consumer")

_LAST_EPOCH: Final = 2**31 - 1


class FetchPartitionData(NamedTuple):
    """What to ask for in one partition; sizes in bytes, epochs -1 when they are not known."""

    topic_id: bytes
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1


class FetchRequestData(NamedTuple):
    """What one fetch has to say: partitions to add or change, partitions to drop, and its place in the session."""

    session_id: int
    session_epoch: int
    to_send: Mapping[TopicPartition, FetchPartitionData]
    to_forget: Iterable[tuple[TopicPartition, bytes]]
    can_use_topic_ids: bool

    @property
    def is_full(self) -> bool:
        """Whether it names all partitions."""
        return self.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)


class FetchSessionHandler:
    """The session with one broker. Belongs to the `Fetcher`."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[TopicPartition, FetchPartitionData] = {}
        # Partitions of topics without an id, and of all others topic id to name and to how many partitions it has here.
        self._nameless: set[TopicPartition] = set()
        self._topic_names: dict[bytes, str] = {}
        self._partition_counts: dict[bytes, int] = {}
        self._used_topic_ids = False

    def build(
        self, wanted: Mapping[TopicPartition, FetchPartitionData], changed: Iterable[TopicPartition] | None = None
    ) -> FetchRequestData:
        """Return the next request of the session, which afterwards has exactly the `wanted` partitions.

        `changed` are those to look at because they may be wanted in another way than by the last request; None for all.
        """
        if changed is None:
            changed = [*wanted, *(self._partitions.keys() - wanted.keys())]
        to_send, to_forget = self._compare(wanted, changed)
        uses_topic_ids = not self._nameless
        if self._epoch != INITIAL_EPOCH and wanted and uses_topic_ids != self._used_topic_ids:
            # A session names its topics by id or by name, not by both.
            self._epoch = INITIAL_EPOCH
        if self._epoch == INITIAL_EPOCH:
            self._used_topic_ids = uses_topic_ids
            return FetchRequestData(self._session_id, INITIAL_EPOCH, dict(wanted), (), uses_topic_ids)
        return FetchRequestData(self._session_id, self._epoch, to_send, to_forget, self._used_topic_ids)

    def _compare(
        self, wanted: Mapping[TopicPartition, FetchPartitionData], changed: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, FetchPartitionData], list[tuple[TopicPartition, bytes]]]:
        to_send: dict[TopicPartition, FetchPartitionData] = {}
        to_forget: list[tuple[TopicPartition, bytes]] = []
        for partition in changed:
            data, known = wanted.get(partition), self._partitions.pop(partition, None)
            if known is not None and (data is None or data.topic_id != known.topic_id):
                to_forget.append((partition, known.topic_id))
                self._forget_topic(partition, known.topic_id)
            if data is None:
                continue
            self._partitions[partition] = data
            if data != known:
                to_send[partition] = data
            if known is None or data.topic_id != known.topic_id:
                self._note_topic(partition, data.topic_id)
        return to_send, to_forget

    def _note_topic(self, partition: TopicPartition, topic_id: bytes) -> None:
        if topic_id == ZERO_UUID:
            self._nameless.add(partition)
        else:
            self._topic_names[topic_id] = partition.topic
            self._partition_counts[topic_id] = self._partition_counts.get(topic_id, 0) + 1

    def _forget_topic(self, partition: TopicPartition, topic_id: bytes) -> None:
        if topic_id == ZERO_UUID:
            self._nameless.discard(partition)
        elif self._partition_counts[topic_id] > 1:
            self._partition_counts[topic_id] -= 1
        else:
            del self._partition_counts[topic_id], self._topic_names[topic_id]

    def build_final(self) -> FetchRequestData | None:
        """Return the request that closes the session, if there is one."""
        if self._session_id == NO_SESSION:
            return None
        return FetchRequestData(self._session_id, FINAL_EPOCH, {}, (), can_use_topic_ids=True)

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """The partitions of the session."""
        return self._partitions

    def topic_names(self) -> dict[bytes, str]:
        """Topic id to name, for the topics of the last request: an answer has no others."""
        return self._topic_names

    def handle_response(self, message: FetchResponse) -> bool:
        """Take the broker's word on the session; False when the response holds no data to use."""
        if message.error_code != NONE:
            log.info(
                "Node %s refused fetch session %s: %s", self._node_id, self._session_id, name_of(message.error_code)
            )
            if message.error_code == FetchSessionIdNotFoundError.code:
                self._session_id = NO_SESSION
            self._epoch = INITIAL_EPOCH
            return False
        if message.session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif message.session_id != self._session_id:
            self._session_id, self._epoch = message.session_id, INITIAL_EPOCH + 1
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        return True

    def handle_error(self) -> None:
        """No answer: the broker may or may not have taken the request, so the next one starts a new session."""
        self._epoch = INITIAL_EPOCH
