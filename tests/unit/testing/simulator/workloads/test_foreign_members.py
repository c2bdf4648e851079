"""From which epoch on a foreign member takes a partition for its own, by what it was told and what was lost."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.testing.simulator.workloads.foreign_members import ForeignMember

TOPIC = b"t" * 16


def told(epoch: int, *partitions: int) -> ConsumerGroupHeartbeatResponse:
    assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=list(partitions))])
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, assignment=assignment)


def confirmed(epoch: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch)


LOST = None


@pytest.mark.parametrize(
    ("answers", "since"),
    [
        ([told(2, 0)], {0: 2}),
        ([told(2), told(4, 0)], {0: 4}),
        # Of seed 60074: the group gave it in epoch 2, and that answer was lost.
        ([told(2), LOST, confirmed(2), told(4, 0)], {0: 2}),
        ([told(2), LOST, told(4, 0), told(5, 0, 1)], {0: 2, 1: 5}),
        ([told(2), LOST, confirmed(3), LOST, told(4, 0)], {0: 2}),
    ],
)
def test_a_partition_counts_from_the_first_epoch_in_which_the_group_may_have_given_it(
    answers: list[ConsumerGroupHeartbeatResponse | None], since: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    member: Any = ForeignMember.__new__(ForeignMember)
    member.world = SimpleNamespace(now=0.0, counts=Counter())
    member.network = SimpleNamespace(has_faulty_disk=False)
    member._reign = SimpleNamespace(is_sure=True)
    member._id, member._epoch, member._epochs, member._owned, member._to_give_up = "m", 0, [], {}, set()
    member._rebalance_timeout, member._is_stubborn, member._untold_since = 3.0, False, None
    member._told_at = member._last_answer = 0.0
    coming = iter(answers)
    monkeypatch.setattr(ForeignMember, "_call", lambda self, message, version=1: next(coming))

    for _ in answers:
        assert member._beat()

    assert member._owned == {(TOPIC, index): epoch for index, epoch in since.items()}
