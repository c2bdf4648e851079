"""Share sessions (KIP-932): each fetch names only the partitions that changed since the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.client.consumer.share.share_requests import SessionChange
from barnabas.errors import (
    NONE,
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
    name_of,
)
from barnabas.network.log_context import client_logger
from barnabas.protocol.epochs import FINAL_EPOCH, INITIAL_EPOCH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from barnabas.protocol.topic_partition import TopicIdPartition

log = client_logger("barnabas.consumer")

_LAST_EPOCH: Final = 2**31 - 1
_SESSION_IS_GONE: Final = frozenset(
    {ShareSessionNotFoundError.code, InvalidShareSessionEpochError.code, ShareSessionLimitReachedError.code}
)


class ShareSessionHandler:
    """The session with one broker, named by group and member. Belongs to the `ShareConsumeRequestManager`."""

    __slots__ = ("_node_id", "_partitions", "epoch", "number")

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        #: What the next request says; the broker counts them.
        self.epoch = INITIAL_EPOCH
        #: Counts the sessions: with one end the locks of what it brought.
        self.number = 0
        self._partitions: dict[tuple[bytes, int], TopicIdPartition] = {}

    @property
    def is_new(self) -> bool:
        """Whether the broker has no session yet: the next request begins one, which only a fetch can do."""
        return self.epoch == INITIAL_EPOCH

    def build(self, wanted: Collection[TopicIdPartition], named: Iterable[TopicIdPartition] = ()) -> SessionChange:
        """Return what the next fetch adds and what it drops, so that the session has exactly the `wanted`.

        The `named` are those whose records it acknowledges, by which the broker would add them.
        """
        before = {} if self.is_new else self._partitions
        self._partitions = {(partition.topic_id, partition.partition): partition for partition in wanted}
        added = [partition for key, partition in self._partitions.items() if key not in before]
        dropped = [partition for key, partition in before.items() if key not in self._partitions]
        dropped += [one for one in named if (one.topic_id, one.partition) not in self._partitions | before]
        return SessionChange(self.epoch, added, dropped)

    def forget_partitions(self) -> None:
        """Have the next fetch name all partitions: the broker refused the last one, and may not have taken them."""
        self._partitions = {}

    def needs_change(self, wanted: Collection[TopicIdPartition]) -> bool:
        """Whether the session has other partitions than the `wanted`."""
        return set(self._partitions.values()) != set(wanted)

    def find(self, topic_id: bytes, partition: int) -> TopicIdPartition | None:
        """Return a partition of the session, by what answers call it."""
        return self._partitions.get((topic_id, partition))

    def handle_response(self, error_code: int) -> bool:
        """Take the broker's word on the session; False when it refused the whole request."""
        if error_code in _SESSION_IS_GONE:
            log.info("Node %s refused the share session: %s", self._node_id, name_of(error_code))
            self.handle_error()
            return False
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        if error_code != NONE:
            log.info("Node %s refused a request of the share session: %s", self._node_id, name_of(error_code))
        return error_code == NONE

    def handle_error(self) -> None:
        """No answer: the broker may or may not have taken the request, so the next fetch begins a new session."""
        self.epoch = INITIAL_EPOCH
        self.number += 1

    def close(self) -> None:
        """Have the next request end the session."""
        self.epoch = FINAL_EPOCH
