"""Leaders that were elected uncleanly: they say so, tell the controller when they have recovered, go on (KIP-704)."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.membership.alter_partition_manager import AlterPartitions
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest
from barnabas.broker.metadata.partition_registration import RECOVERED, RECOVERING, PartitionRegistration
from barnabas.broker.replication.partition_state import CommittedPartitionState, LeaderAndIsr
from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest
from barnabas.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import CoreBroker
from tests.unit.broker.replication.test_replicated_partition import ID, ME, SECOND, THIRD, Bench


def elected(bench: Bench, isr: tuple[int, ...] = (ME,)) -> None:
    """Let the controller choose this broker, which was not in sync."""
    epoch = bench.registration.leader_epoch + 1
    bench.apply(leader=ME, isr=isr, leader_epoch=epoch, leader_recovery_state=RECOVERING)


def test_a_leader_that_was_elected_uncleanly_says_so_and_tells_that_it_has_recovered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(leader=SECOND, min_insync_replicas=1)
    elected(bench)
    ((proposed, _),) = bench.others.proposals
    assert proposed == LeaderAndIsr(ME, 1, ((ME, 101),), bench.registration.partition_epoch, RECOVERED)
    assert "t-0 was given to this broker by an unclean election in epoch 1" in caplog.text
    assert "from offset 0 on is lost" in caplog.text
    bench.registration = bench.registration._replace(leader_recovery_state=RECOVERED)
    bench.accept()
    assert bench.state == CommittedPartitionState(frozenset((ME,)), RECOVERED)
    changes = bench.manager.isr_changes
    assert (changes.expands, changes.shrinks, changes.failed) == (0, 0, 0), "no ISR was changed"


def test_a_clean_leader_tells_nothing() -> None:
    bench = Bench(leader=SECOND)
    bench.apply(leader=ME, leader_epoch=1)
    assert bench.others.proposals == []


def test_followers_join_once_the_recovery_was_told() -> None:
    bench = Bench(leader=SECOND, min_insync_replicas=1)
    elected(bench)
    bench.follow(THIRD, 0)
    assert len(bench.others.proposals) == 1, "one at a time"
    bench.registration = bench.registration._replace(leader_recovery_state=RECOVERED)
    bench.accept()
    bench.follow(THIRD, 0)
    proposed, _ = bench.others.proposals[-1]
    assert {member for member, _ in proposed.isr} == {ME, THIRD}
    assert proposed.leader_recovery_state == RECOVERED


def test_what_the_controller_refuses_is_told_with_the_next_isr() -> None:
    bench = Bench(leader=SECOND, min_insync_replicas=1)
    elected(bench)
    bench.answer(errors.IneligibleReplicaError.code)
    assert bench.state == CommittedPartitionState(frozenset((ME,)), RECOVERING)
    bench.follow(THIRD, 0)
    proposed, _ = bench.others.proposals[-1]
    assert proposed.leader_recovery_state == RECOVERED
    assert len(proposed.isr) == 2


def test_a_partition_with_one_replica_recovers_too() -> None:
    bench = Bench(leader=SECOND, min_insync_replicas=1)
    bench.apply(replicas=(ME,), isr=(ME,), leader=ME, leader_epoch=1, leader_recovery_state=RECOVERING)
    assert len(bench.others.proposals) == 1
    bench.apply(leader_recovery_state=RECOVERED)
    assert bench.partition.is_sole_replica


def test_the_state_goes_to_the_controller_and_comes_from_it() -> None:
    class Queue:
        def __init__(self) -> None:
            self.requests: list[ControllerRequest] = []

        def submit(self, request: ControllerRequest) -> None:
            self.requests.append(request)

    queue, answers = Queue(), []
    manager = AlterPartitions(ME, lambda: 101, queue)  # type: ignore[arg-type]
    proposed = LeaderAndIsr(ME, 3, ((ME, 101),), 7, RECOVERING)
    manager.submit(TopicPartition("t", 0), ID, proposed, lambda answer, now_ms: answers.append(answer))
    (sent,) = queue.requests
    request = sent.make()
    assert isinstance(request, AlterPartitionRequest)
    assert request.topics[0].partitions[0].leader_recovery_state == RECOVERING
    told = PartitionData(leader_id=ME, leader_epoch=3, isr=[ME], partition_epoch=8, leader_recovery_state=RECOVERING)
    response = AlterPartitionResponse(topics=[TopicData(topic_id=ID, partitions=[told])])
    sent.done(response, CoreBroker({"node.id": ME}).instant)
    assert answers == [PartitionRegistration((), (ME,), ME, 3, 8, leader_recovery_state=RECOVERING)]
