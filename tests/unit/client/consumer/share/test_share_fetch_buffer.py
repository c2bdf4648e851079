"""What waits to be handed out: dropped where others may have it, given back where this consumer is not to have it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import TopicIdPartition
from barnabas.client.consumer.share.share_completed_fetch import AcquisitionLock, ShareCompletedFetch
from barnabas.client.consumer.share.share_fetch_buffer import ShareFetchBuffer
from barnabas.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData

NODE, SESSION = 1, 7
NAME = TopicIdPartition(b"t" * 16, "t", 0)
LOCK = AcquisitionLock(NODE, SESSION, ends_at=30.0, stale_at=15.0)


class Assignment:
    """What the buffer asks of the assignment."""

    def __init__(self, *, is_assigned: bool, leader: int) -> None:
        self.is_assigned, self.leader = is_assigned, leader

    def has(self, partition: TopicIdPartition) -> bool:
        return self.is_assigned and partition == NAME

    def has_moved(self, partition: TopicIdPartition, node_id: int) -> bool:
        assert partition == NAME
        return self.leader not in (-1, node_id)


def buffer_of(session: int = SESSION, **assignment: Any) -> ShareFetchBuffer:
    """A buffer with ten records."""
    known: Any = Assignment(**{"is_assigned": True, "leader": NODE, **assignment})
    made = ShareFetchBuffer(known, lambda lock: lock.session == session)
    data = PartitionData(partition_index=0, records=b"", acquired_records=[AcquiredRecords(5, 14, 1)])
    config: Any = None
    made.fetches.append(ShareCompletedFetch(NAME, LOCK, data, config))
    return made


def test_records_wait_while_they_are_locked_for_this_consumer() -> None:
    buffer = buffer_of()
    assert buffer.part(14.9) == []
    assert buffer.count == 10


@pytest.mark.parametrize(
    ("now", "buffer"),
    [
        pytest.param(30.0, buffer_of(), id="the lock is over"),
        pytest.param(1.0, buffer_of(session=SESSION + 1), id="the session has ended"),
        pytest.param(1.0, buffer_of(leader=NODE + 1), id="the leader has moved"),
    ],
)
def test_what_others_may_have_is_dropped(now: float, buffer: ShareFetchBuffer) -> None:
    assert buffer.part(now) == []
    assert buffer.count == 0


@pytest.mark.parametrize(
    ("now", "buffer"),
    [
        pytest.param(15.0, buffer_of(), id="the application did not come"),
        pytest.param(1.0, buffer_of(is_assigned=False), id="the partition was revoked"),
    ],
)
def test_what_this_consumer_has_and_is_not_to_have_is_given_back(now: float, buffer: ShareFetchBuffer) -> None:
    (fetch,) = buffer.part(now)
    assert fetch.acquired == [(5, 14)]
    assert buffer.count == 0


def test_a_leader_that_is_not_known_is_no_other_leader() -> None:
    assert buffer_of(leader=-1).part(1.0) == []
    buffer = buffer_of(leader=-1)
    buffer.part(1.0)
    assert buffer.count == 10
