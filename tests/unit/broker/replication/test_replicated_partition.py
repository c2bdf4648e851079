"""What a leader with followers decides: what is committed, who is in sync, whom it answers (PartitionTest, retold)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.replica_manager import Cluster
from barnabas.broker.replication.partition_state import (
    CommittedPartitionState,
    LeaderAndIsr,
    PendingExpandIsr,
    PendingShrinkIsr,
)
from barnabas.broker.replication.replica_fetcher_manager import ReplicaFetchers
from barnabas.protocol.messages.fetch_request import ReplicaState
from barnabas.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce
from tests.unit.broker.replication.test_replica_fetcher import record

NAME = TopicPartition("t", 0)
ID = bytes(range(16))
ME, SECOND, THIRD = 1, 2, 3
LAG = 10.0


class Followers:
    """The cluster around the broker: epochs of the other brokers, proposals as they came, and no fetchers."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {ME: 101, SECOND: 102, THIRD: 103}
        self.leaving: set[int] = set()
        self.proposals: list[tuple[LeaderAndIsr, Any]] = []
        self.local_broker_epoch = 101

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    def is_shutting_down(self, broker_id: int) -> bool:
        return broker_id in self.leaving

    def submit(self, name: TopicPartition, topic_id: bytes, proposed: LeaderAndIsr, done: Any) -> None:
        assert (name, topic_id) == (NAME, ID)
        self.proposals.append((proposed, done))


class Bench:
    """A broker, number 1, with one partition that the controller assigns."""

    def __init__(
        self,
        isr: tuple[int, ...] = (ME, SECOND, THIRD),
        min_insync_replicas: int = 2,
        leader: int = ME,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.broker = CoreBroker({"node.id": ME, **(settings or {})})
        self.others = Followers()
        self.manager = self.broker.state.replica_manager
        self.added: list[tuple[int, int]] = []
        self.manager.join(Cluster(ME, self.others, self.others, ReplicaFetchers(self._fetcher), int(LAG * 1000)))
        topic = TopicMetadata("t", ID, 1, {"min.insync.replicas": str(min_insync_replicas)}, 0)
        self.broker.node.metadata.put_topics([topic])
        self.registration = PartitionRegistration((ME, SECOND, THIRD), isr, ME, 0, 0)
        self.apply()
        self.producer, self.second, self.third = (self.broker.connect() for _ in range(3))

    def _fetcher(self, leader: int) -> Any:
        bench = self

        class Noted:
            def add_partition(self, name: TopicPartition, topic_id: bytes, leader_epoch: int, now_ms: int) -> None:
                bench.added.append((leader, leader_epoch))

            def remove_partition(self, name: TopicPartition) -> None:
                pass

        return Noted()

    def apply(self, **changes: Any) -> None:
        epoch = self.registration.partition_epoch + 1
        self.registration = self.registration._replace(partition_epoch=epoch, **changes)
        assert self.manager.apply_delta({NAME: (ID, self.registration)}, (), self.broker.now_ms) == {}
        self.broker.node.core.settle(self.broker.instant)

    @property
    def partition(self) -> Any:
        return self.manager.used_partition(*NAME)

    @property
    def state(self) -> Any:
        return self.partition.in_sync.state

    def produce(self, acks: int = -1, value: bytes = b"v") -> Any:
        return self.broker.connect().request(produce("t", batch(value), acks=acks), 11)

    def follow(self, broker_id: int, offset: int, epoch: int | None = None, **fields: Any) -> Any:
        """Let a follower fetch; gives what is said of the partition."""
        broker_epoch = self.others.epochs.get(broker_id, -1) if epoch is None else epoch
        log_start_offset = fields.pop("log_start_offset", -1)
        request = fetch("t", offset, topic_id=ID, **fields)
        request.topics[0].partitions[0].log_start_offset = log_start_offset
        request.replica_state = ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch)
        request.topics[0].partitions[0].current_leader_epoch = self.registration.leader_epoch
        return self.broker.connect().request(request, 17).responses[0].partitions[0]

    def answer(self, answer: PartitionRegistration | int) -> None:
        _, done = self.others.proposals[-1]
        done(answer, self.broker.now_ms)
        self.broker.node.core.settle(self.broker.instant)

    def accept(self) -> None:
        """Let the controller carry the last proposal out."""
        proposed, _ = self.others.proposals[-1]
        isr = tuple(member for member, _ in proposed.isr)
        self.registration = self.registration._replace(isr=isr, partition_epoch=self.registration.partition_epoch + 1)
        self.answer(self.registration)


def code_of(response: Any) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


# -- acks --------------------------------------------------------------------------------------------------------------


def test_acks_all_waits_for_all_in_sync_and_acks_1_for_nobody() -> None:
    bench = Bench()
    client = bench.broker.connect()

    assert client.request(produce("t", batch(b"v")), 11) is None
    assert code_of(bench.produce(acks=1)) == 0
    bench.follow(SECOND, 1)
    assert (client.responses, bench.partition.log.high_watermark) == ([], 0)
    bench.follow(THIRD, 1)

    assert code_of(client.responses[0]) == 0
    assert bench.partition.log.high_watermark == 1


def test_acks_all_ends_in_time() -> None:
    bench = Bench()
    client = bench.broker.connect()
    assert client.request(produce("t", batch(b"v")), 11) is None
    bench.broker.advance(1.1)

    assert code_of(client.responses[0]) == errors.KafkaTimeoutError.code


def test_too_few_in_sync_refuse_acks_all_before_the_append_and_not_acks_1() -> None:
    bench = Bench(isr=(ME,))

    assert code_of(bench.produce()) == errors.NotEnoughReplicasError.code
    assert bench.partition.log.log_end_offset == 0
    assert code_of(bench.produce(acks=1)) == 0
    assert bench.partition.log.high_watermark == 0


def test_too_few_in_sync_after_the_append_are_told_too() -> None:
    bench = Bench()
    client = bench.broker.connect()
    assert client.request(produce("t", batch(b"v")), 11) is None
    bench.follow(SECOND, 1)
    bench.partition.in_sync.state = CommittedPartitionState(frozenset((ME, SECOND)))
    bench.partition.advance_high_watermark(bench.broker.now_ms)
    bench.partition.log.update_high_watermark(1)
    bench.apply(isr=(ME,))

    assert code_of(client.responses[0]) == errors.NotEnoughReplicasAfterAppendError.code


def test_a_factor_smaller_than_min_insync_replicas_bounds_it() -> None:
    """As in Apache Kafka 4.x (effectiveMinIsr): a topic of one replica takes acks=all, whatever it asks for."""
    broker = CoreBroker()
    client = broker.connect()
    client.request(create("t", min_insync_replicas="2"), 7)

    assert code_of(client.request(produce("t", batch(b"v")), 11)) == 0


def test_who_lost_the_leadership_answers_nobody_that_waits() -> None:
    bench = Bench()
    client = bench.broker.connect()
    assert client.request(produce("t", batch(b"v")), 11) is None
    bench.apply(leader=SECOND, leader_epoch=1)

    assert code_of(client.responses[0]) == errors.NotLeaderOrFollowerError.code
    assert code_of(bench.produce()) == errors.NotLeaderOrFollowerError.code
    assert bench.added == [(SECOND, 1)]


def test_a_leadership_that_comes_back_does_not_answer_for_the_one_before() -> None:
    bench = Bench()
    client = bench.broker.connect()
    assert client.request(produce("t", batch(b"v")), 11) is None
    for leader, epoch in ((SECOND, 1), (ME, 2)):
        bench.registration = bench.registration._replace(
            leader=leader, leader_epoch=epoch, partition_epoch=bench.registration.partition_epoch + 1
        )
        bench.manager.apply_delta({NAME: (ID, bench.registration)}, (), bench.broker.now_ms)
    bench.follow(SECOND, 1)
    bench.follow(THIRD, 1)

    assert bench.partition.log.high_watermark == 1
    assert code_of(client.responses[0]) == errors.NotLeaderOrFollowerError.code


# -- the high watermark ------------------------------------------------------------------------------------------------


def test_a_follower_reads_to_the_end_and_a_consumer_to_the_high_watermark() -> None:
    bench = Bench()
    bench.produce(acks=1)

    assert bench.follow(SECOND, 0).records
    seen = bench.broker.connect().request(fetch("t"), 12).responses[0].partitions[0]
    assert (seen.records, seen.high_watermark) == (b"", 0)


def test_a_parked_follower_wakes_with_the_log_and_a_parked_consumer_with_the_high_watermark() -> None:
    bench = Bench()
    consumer, follower = bench.broker.connect(), bench.broker.connect()
    request = fetch("t", 0, topic_id=ID, max_wait_ms=5000)
    request.replica_state = ReplicaState(replica_id=SECOND, replica_epoch=102)
    assert consumer.request(fetch("t", max_wait_ms=5000), 12) is None
    assert follower.request(request, 17) is None

    bench.produce(acks=1)
    assert (len(consumer.responses), len(follower.responses)) == (0, 1)
    bench.follow(SECOND, 1)
    bench.follow(THIRD, 1)
    assert len(consumer.responses) == 1


def test_the_high_watermark_does_not_move_below_min_isr() -> None:
    bench = Bench(isr=(ME,), min_insync_replicas=2)
    bench.produce(acks=1)
    assert bench.partition.log.high_watermark == 0
    bench.apply(isr=(ME, SECOND))
    bench.follow(SECOND, 1)
    bench.follow(THIRD, 1)

    assert bench.partition.log.high_watermark == 1


def test_a_leader_that_does_not_know_what_was_committed_tells_no_end() -> None:
    bench = Bench()
    bench.produce(acks=1)
    bench.apply(leader=SECOND, leader_epoch=1)
    bench.apply(leader=ME, leader_epoch=2)
    latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[latest])])
    ask = lambda: bench.broker.connect().request(request, 9).topics[0].partitions[0]  # noqa: E731

    assert ask().error_code == errors.OffsetNotAvailableError.code
    bench.follow(SECOND, 1)
    bench.follow(THIRD, 1)
    assert (ask().error_code, ask().offset) == (0, 1)


# -- the ISR -----------------------------------------------------------------------------------------------------------


def test_a_follower_that_has_caught_up_is_proposed_and_counts_at_once() -> None:
    bench = Bench(isr=(ME, SECOND))
    bench.produce(acks=1)
    bench.follow(SECOND, 1)
    bench.follow(THIRD, 1)

    assert bench.others.proposals[0][0] == LeaderAndIsr(ME, 0, ((1, 101), (2, 102), (3, 103)), 1)
    assert isinstance(bench.state, PendingExpandIsr)
    assert bench.state.maximal_isr == {ME, SECOND, THIRD}
    bench.produce(acks=1)
    bench.follow(SECOND, 2)
    assert bench.partition.log.high_watermark == 1
    bench.accept()
    assert bench.state == CommittedPartitionState(frozenset((ME, SECOND, THIRD)))


INELIGIBLE = {
    "fenced": lambda others: others.epochs.pop(THIRD),
    "leaving": lambda others: others.leaving.add(THIRD),
    "of another life": lambda others: others.epochs.update({THIRD: 200}),
}


@pytest.mark.parametrize("why", INELIGIBLE)
def test_a_follower_is_not_proposed_when_it_is(why: str) -> None:
    bench = Bench(isr=(ME, SECOND))
    INELIGIBLE[why](bench.others)
    found = bench.follow(THIRD, 0, epoch=103)

    assert bench.others.proposals == []
    assert found.error_code == (errors.NotLeaderOrFollowerError.code if why == "of another life" else 0)


def test_a_follower_whose_new_life_the_leader_does_not_know_is_proposed_when_it_does() -> None:
    """KIP-903: the Fetch of a broker that has registered again may come before the news of that."""
    bench = Bench(isr=(ME, SECOND))
    assert bench.follow(THIRD, 0, epoch=200).error_code == 0
    assert bench.others.proposals == []
    bench.others.epochs[THIRD] = 200
    bench.follow(THIRD, 0, epoch=200)
    assert [dict(proposed.isr)[THIRD] for proposed, _ in bench.others.proposals] == [200]


def test_a_proposal_has_the_epoch_of_the_life_that_fetched_and_not_of_a_later_one() -> None:
    """KIP-903: the controller refuses it then; the later life may have lost what the earlier one had."""
    bench = Bench()
    bench.produce(acks=1)
    bench.broker.advance(LAG - 1)
    bench.follow(SECOND, 1)
    bench.others.epochs[SECOND] = 200
    bench.broker.advance(2)
    bench.manager.shrink_isrs(bench.broker.now_ms)
    assert [proposed.isr for proposed, _ in bench.others.proposals] == [((ME, 101), (SECOND, 102))]


def test_a_follower_is_not_proposed_before_the_start_of_the_epoch() -> None:
    bench = Bench(isr=(ME, SECOND))
    bench.produce(acks=1)
    bench.produce(acks=1)
    bench.apply(leader=SECOND, leader_epoch=1)
    bench.apply(leader=ME, leader_epoch=2)
    bench.follow(THIRD, 1)
    assert bench.others.proposals == []
    bench.follow(THIRD, 2)
    assert len(bench.others.proposals) == 1


def test_a_follower_that_lags_is_taken_out_and_counts_until_the_controller_agrees() -> None:
    bench = Bench()
    bench.follow(SECOND, 0)
    bench.follow(THIRD, 0)
    bench.produce(acks=1)
    bench.broker.advance(LAG + 1)
    bench.follow(SECOND, 1)
    bench.manager.shrink_isrs(bench.broker.now_ms)

    assert isinstance(bench.state, PendingShrinkIsr)
    assert bench.partition.log.high_watermark == 0
    bench.manager.shrink_isrs(bench.broker.now_ms)
    assert len(bench.others.proposals) == 1
    bench.accept()
    assert bench.partition.log.high_watermark == 1


@pytest.mark.parametrize("code", [errors.IneligibleReplicaError.code, errors.OperationNotAttemptedError.code])
def test_what_the_controller_has_surely_not_done_is_taken_back(code: int) -> None:
    bench = Bench(isr=(ME, SECOND))
    bench.follow(THIRD, 0)
    bench.answer(code)

    assert bench.state == CommittedPartitionState(frozenset((ME, SECOND)))


def test_who_was_to_join_and_has_ended_does_not_keep_records_from_being_committed_when_it_is_refused() -> None:
    """Nothing else would say so: the followers in sync have everything, and nothing more is appended."""
    bench = Bench(isr=(ME, SECOND))
    bench.follow(THIRD, 0)
    bench.produce(acks=1)
    bench.follow(SECOND, 1)
    assert bench.partition.log.high_watermark == 0
    bench.others.epochs.pop(THIRD)
    bench.answer(errors.IneligibleReplicaError.code)

    assert bench.partition.log.high_watermark == 1


def test_who_was_caught_up_does_not_keep_records_from_being_committed_when_its_broker_has_ended() -> None:
    bench = Bench(isr=(ME, SECOND))
    bench.others.epochs.pop(THIRD)
    bench.follow(THIRD, 0)
    bench.others.epochs[THIRD] = 103
    bench.produce(acks=1)
    bench.follow(SECOND, 1)
    assert bench.partition.log.high_watermark == 0
    bench.others.epochs.pop(THIRD)
    bench.follow(SECOND, 1)

    assert bench.partition.log.high_watermark == 1


@pytest.mark.parametrize("code", [errors.InvalidUpdateVersionError.code, errors.FencedLeaderEpochError.code])
def test_what_may_have_been_done_stays_pending_until_news_come(code: int) -> None:
    bench = Bench(isr=(ME, SECOND))
    bench.follow(THIRD, 0)
    bench.answer(code)

    assert isinstance(bench.state, PendingExpandIsr)
    bench.apply(isr=(ME, SECOND, THIRD))
    assert bench.state == CommittedPartitionState(frozenset((ME, SECOND, THIRD)))


def test_an_error_that_says_nothing_is_answered_by_the_same_proposal() -> None:
    bench = Bench(isr=(ME, SECOND))
    bench.follow(THIRD, 0)
    bench.answer(errors.KafkaTimeoutError.code)

    first, second = bench.others.proposals
    assert first[0] == second[0]


def test_an_answer_of_an_earlier_leadership_changes_nothing() -> None:
    bench = Bench(isr=(ME, SECOND))
    bench.follow(THIRD, 0)
    late = bench.registration._replace(isr=(ME, SECOND, THIRD), partition_epoch=2)
    bench.apply(leader=SECOND, leader_epoch=1)
    bench.answer(late)

    assert (bench.partition.is_leader, bench.partition.in_sync) == (False, None)


# -- epochs and roles --------------------------------------------------------------------------------------------------


def test_a_fetch_of_another_epoch_or_broker_is_refused() -> None:
    bench = Bench()
    bench.apply(leader_epoch=3)
    stale = bench.registration
    bench.registration = stale._replace(leader_epoch=2)
    assert bench.follow(SECOND, 0).error_code == errors.FencedLeaderEpochError.code
    bench.registration = stale._replace(leader_epoch=4)
    assert bench.follow(SECOND, 0).error_code == errors.UnknownLeaderEpochError.code
    bench.registration = stale
    assert bench.follow(9, 0).error_code == errors.UnknownLeaderEpochError.code
    assert bench.follow(SECOND, 0).error_code == 0


def test_news_older_than_what_is_known_are_dropped() -> None:
    bench = Bench()
    old = bench.registration._replace(leader=SECOND)
    bench.apply(isr=(ME, SECOND))
    bench.manager.apply_delta({NAME: (ID, old._replace(partition_epoch=0))}, (), bench.broker.now_ms)

    assert bench.partition.is_leader


def test_a_replica_that_is_taken_away_is_deleted_and_a_namesake_never_served() -> None:
    bench = Bench()
    bench.produce(acks=1)
    bench.apply(replicas=(SECOND, THIRD), isr=(SECOND, THIRD), leader=SECOND, leader_epoch=1)
    assert bench.partition is None
    assert NAME not in bench.broker.node.logs.logs

    bench.apply(replicas=(ME, SECOND, THIRD), leader=SECOND)
    other = bytes(16)
    bench.manager.apply_delta({NAME: (other, bench.registration)}, (), bench.broker.now_ms)
    assert (bench.partition.topic_id, bench.partition.log.topic_id) == (other, other)


def test_what_a_new_leader_had_not_flushed_is_committed_without_another_record() -> None:
    """A broker that was killed may be the next leader, and with `flush.messages` only what is flushed counts."""
    bench = Bench(settings={"log.flush.interval.messages": "1"})
    bench.apply(leader=SECOND, leader_epoch=1)
    log = bench.partition.log
    log.append_as_follower(record(0, 1), now_ms=bench.broker.now_ms, leader_epoch=1)
    assert log.must_flush
    bench.apply(leader=ME, leader_epoch=2, isr=(ME, SECOND))
    bench.follow(SECOND, 1)
    assert (log.must_flush, log.high_watermark) == (False, 1)


# -- a disk that has failed --------------------------------------------------------------------------------------------


def reopened_with_less(bench: Bench) -> None:
    """The log goes offline, loses its last record, and is opened anew."""
    log = bench.partition.log
    content = bench.broker.filesystem.inode(log.local_log.segments.active.records.path).data
    log.fail("a write", OSError("broken"))
    del content[-10:]
    bench.broker.advance(12)
    assert bench.partition.log is not log
    assert bench.partition.log.log_end_offset == 1


def test_a_leader_whose_disk_has_lost_records_does_not_lead_on_in_its_epoch() -> None:
    """It would write others at the same offsets and in the same epoch, which no follower could tell apart."""
    bench = Bench()
    bench.produce(acks=1, value=b"a")
    bench.produce(acks=1, value=b"b")
    bench.follow(SECOND, 2)
    reopened_with_less(bench)

    assert code_of(bench.produce(acks=1)) == errors.NotLeaderOrFollowerError.code
    bench.apply(isr=(ME, SECOND))
    assert code_of(bench.produce(acks=1)) == errors.NotLeaderOrFollowerError.code
    bench.apply(leader_epoch=1)
    assert code_of(bench.produce(acks=1)) == 0


def test_a_follower_whose_log_is_opened_anew_is_fetched_for_again() -> None:
    bench = Bench()
    bench.produce(acks=1)
    bench.produce(acks=1)
    bench.apply(leader=SECOND, leader_epoch=1)
    assert bench.added == [(SECOND, 1)]
    reopened_with_less(bench)

    assert bench.added == [(SECOND, 1), (SECOND, 1)]
