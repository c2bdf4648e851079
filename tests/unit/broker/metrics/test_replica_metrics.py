"""What a broker in a cluster tells of replication, under Kafka's names."""

from __future__ import annotations

from typing import Any

from barnabas import errors
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.broker.metrics.replica_metrics import ReplicaMetrics
from tests.support.cluster_member import ME, MemberBroker, broker, topic
from tests.support.core_broker import batch, produce
from tests.support.replicated_pair import FOLLOWER, LEADER, ReplicatedPair

MANAGER, TOPICS = "kafka_server_replicamanager_", "kafka_server_brokertopicmetrics_"


def samples(manager: Any) -> dict[str, float]:
    return {
        one.name + "".join(f",{value}" for value in one.labels.values()): one.value
        for metric in ReplicaMetrics(manager).collect()
        for one in metric.samples
    }


def with_isr(*isr: int, epoch: int = 1, **more: Any) -> PartitionRegistration:
    return PartitionRegistration((LEADER, FOLLOWER), isr, LEADER, 0, epoch, **more)


def test_partitions_are_counted_by_how_many_of_their_replicas_are_in_sync() -> None:
    pair = ReplicatedPair(5)
    leader = pair.leader
    leader.assign(range(2), with_isr(LEADER))
    leader.assign(range(2, 3), with_isr(LEADER, FOLLOWER, adding_replicas=(FOLLOWER,)))
    leader.manager.partition("t", 0).log.config.min_insync_replicas = 2
    leader.manager.partition("t", 3).log.config.min_insync_replicas = 2
    found = samples(leader.manager)
    assert found[f"{MANAGER}underreplicatedpartitions"] == 2
    assert found[f"{MANAGER}underminisrpartitioncount"] == 1
    assert found[f"{MANAGER}atminisrpartitioncount"] == 2  # 1 has one of one, 3 two of two
    assert found[f"{MANAGER}reassigningpartitions"] == 1
    of = {
        name: [int(found[f"kafka_cluster_partition_{name},t,{index}"]) for index in range(5)]
        for name in ("replicascount", "insyncreplicascount", "underreplicated", "underminisr", "atminisr")
    }
    assert of == {
        "replicascount": [2, 2, 2, 2, 2],
        "insyncreplicascount": [1, 1, 2, 2, 2],
        "underreplicated": [1, 1, 0, 0, 0],
        "underminisr": [1, 0, 0, 0, 0],
        "atminisr": [0, 1, 0, 1, 0],
    }


def test_changes_of_isrs_are_counted_by_what_the_controller_said() -> None:
    pair = ReplicatedPair(3)
    pair.settle()
    pair.leader.broker.advance(100)
    for partition in range(3):
        pair.produce(partition)
    pair.leader.manager.shrink_isrs(pair.leader.broker.now_ms)
    for index, (_, _, _, done) in enumerate(pair.leader.proposals):
        done(with_isr(LEADER) if index else errors.FencedLeaderEpochError.code, pair.leader.broker.now_ms)
    found = samples(pair.leader.manager)
    assert (found[f"{MANAGER}isrshrinks_total"], found[f"{MANAGER}failedisrupdates_total"]) == (2, 1)
    pair.leader.proposals.clear()
    pair.settle()
    for _, _, _, done in pair.leader.proposals:
        done(with_isr(LEADER, FOLLOWER, epoch=2), pair.leader.broker.now_ms)
    assert samples(pair.leader.manager)[f"{MANAGER}isrexpands_total"] == 2


def test_bytes_between_replicas_are_counted_apart_from_those_of_clients() -> None:
    pair = ReplicatedPair(2)
    pair.produce(1)
    size = pair.leader.manager.partition("t", 1).appended
    pair.settle()
    assert samples(pair.leader.manager)[f"{TOPICS}replicationbytesout_total"] == size
    assert samples(pair.follower.manager)[f"{TOPICS}replicationbytesin_total"] == size
    metrics = BrokerMetrics(pair.follower.broker.node, lambda: pair.follower.broker.instant, lambda: 0.0)
    text = metrics.text().decode()
    assert f'{TOPICS}bytesin_total{{topic="t"}} 0.0' in text
    assert f'{TOPICS}bytesout_total{{topic="t"}} 0.0' in text
    assert pair.leader.manager.partition("t", 1).bytes_out == 0


def test_a_follower_tells_how_far_it_is_behind() -> None:
    pair = ReplicatedPair(2)
    pair.leader.assign(range(1, 2), with_isr(LEADER))
    pair.fetcher._settings = pair.fetcher._settings._replace(partition_max_bytes=1)
    for _ in range(3):
        pair.produce(1)
    pair.fetch()
    found = samples(pair.follower.manager)
    assert found["kafka_server_replicafetchermanager_maxlag"] == 2
    assert found["kafka_server_fetcherlagmetrics_consumerlag,t,1"] == 2
    pair.settle()
    assert samples(pair.follower.manager)["kafka_server_replicafetchermanager_maxlag"] == 0


def test_a_follower_tells_of_each_fetcher_and_of_what_it_has_given_up() -> None:
    pair = ReplicatedPair(2)
    pair.produce(1)
    size = pair.leader.manager.partition("t", 1).appended
    pair.settle()
    found = samples(pair.follower.manager)
    whose = f"ReplicaFetcherThread-0-{LEADER},{LEADER}"
    assert found[f"kafka_server_fetcherstats_requests_total,{whose}"] >= 2
    assert found[f"kafka_server_fetcherstats_bytes_total,{whose}"] == size
    assert found["kafka_server_replicafetchermanager_failedpartitionscount"] == 0
    pair.fetcher._fail(next(iter(pair.fetcher._states)), errors.CorruptRecordError("no"))
    assert samples(pair.follower.manager)["kafka_server_replicafetchermanager_failedpartitionscount"] == 1


def test_a_member_tells_of_its_own_replicas_and_leaves_the_cluster_to_the_controllers() -> None:
    member = MemberBroker({}, *broker(1), *broker(2), *topic("t", bytes(range(16)), [ME, 1], [1, ME], [1, 2]))
    member.unfence()
    member.connect().request(produce("t", batch(b"a"), 0, acks=1), 11)
    metrics = BrokerMetrics(member.node, lambda: member.instant, lambda: 0.0)
    lines = [line.rpartition(" ") for line in metrics.text().decode().splitlines() if line[0] != "#"]
    found = {name: float(value) for name, _, value in lines}
    assert (found[f"{MANAGER}partitioncount"], found[f"{MANAGER}leadercount"]) == (2, 1)
    assert found[f"{MANAGER}underreplicatedpartitions"] == 0
    assert not [name for name in found if name.startswith("kafka_controller_")]
