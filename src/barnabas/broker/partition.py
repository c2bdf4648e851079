"""One partition of a topic on this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors

if TYPE_CHECKING:
    from barnabas.broker.log.unified_log import UnifiedLog

#: This broker leads all its partitions and has never lost one: the epoch does not grow.
LEADER_EPOCH = 0


class Partition:
    """A partition with its log. Parked fetches wait under it as their key.

    `appended`, `messages_in` and `bytes_out` count bytes and records since the broker started; `deleted` tells that
    the topic is gone.
    """

    __slots__ = ("appended", "bytes_out", "deleted", "index", "log", "messages_in", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, index: int, log: UnifiedLog):
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.appended = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.deleted = False

    def check_leader_epoch(self, epoch: int) -> None:
        """Raises FencedLeaderEpochError or UnknownLeaderEpochError unless `epoch` is current; -1 is not checked."""
        if epoch in (-1, LEADER_EPOCH):
            return
        found = f"{self.topic}-{self.index} is at leader epoch {LEADER_EPOCH}, the request at {epoch}"
        if epoch < LEADER_EPOCH:
            raise errors.FencedLeaderEpochError(found)
        raise errors.UnknownLeaderEpochError(found)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` and where it ends; (-1, -1) for one that is not known."""
        if epoch == LEADER_EPOCH:
            # The current epoch goes on, also where nothing was written in it yet.
            return LEADER_EPOCH, self.log.log_end_offset
        found = self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)
        return found.epoch, found.start_offset
