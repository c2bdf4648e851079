"""A cluster of Apache Kafka's brokers and one of ours, and what is true of it whatever its control plane."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from barnabas import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.errors import TopicExistsError, UnknownServerError, UnknownTopicOrPartitionError
from barnabas.protocol.kinds import ConfigResourceType, ElectionType
from barnabas.records import read_batches
from tests.contract.traffic import TOPIC, Traffic
from tests.contract.waiting import eventually
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.mixed_cluster import BarnabasBroker, MixedCluster
from tests.peers.zookeeper import ZooKeeperCluster

OURS = 3
SOON = {"reconnect.backoff.max.ms": 500, "retry.backoff.max.ms": 500}
AnyCluster = MixedCluster | ZooKeeperCluster
AnyNode = ApacheKafka | BarnabasBroker
_LONGER_THAN_A_SESSION = 5.0


class World:
    """The cluster, and an admin client that asks our broker first."""

    def __init__(self, cluster: AnyCluster, admin: AdminClient) -> None:
        self.cluster = cluster
        self.brokers = cluster.brokers
        self.admin = admin
        self.settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, **SOON}

    def create(self, topic: str, assignments: dict[int, list[int]]) -> str:
        # A broker of Apache Kafka waits 30 s for a controller that has gone silently.
        eventually(lambda: self._is_created(topic, assignments), 90)
        eventually(lambda: self.is_whole(topic))
        return topic

    def _is_created(self, topic: str, assignments: dict[int, list[int]]) -> bool:
        try:
            self.admin.create_topics([NewTopic(topic, replica_assignments=assignments)])
        except TopicExistsError as error:
            if "marked for deletion" in str(error):  # under ZooKeeper, until all its replicas are gone
                return False
            # Who was asked first may have made it, and its answer was lost with the controller.
            found = {part.partition: [node.id for node in part.replicas] for part in self.partitions(topic)}
            if found and found != assignments:
                raise
            return bool(found)
        except UnknownServerError:
            # So says a controller of Apache Kafka's whose session has ended while it waited for ZooKeeper.
            if not any("ZooKeeperClientExpiredException" in broker.log for broker in self.cluster.theirs.values()):
                raise
            return False
        return True

    def partitions(self, topic: str) -> list[Any]:
        found = self.admin.describe_topics([topic], raise_errors=False)
        return found[topic].partitions if topic in found else []

    def is_whole(self, topic: str) -> bool:
        """Every partition has a leader, and all its replicas are in sync."""
        found = self.partitions(topic)
        return bool(found) and all(
            part.leader is not None and len(part.in_sync_replicas) == len(part.replicas) for part in found
        )

    def leaders(self, topic: str) -> list[int]:
        return [-1 if part.leader is None else part.leader.id for part in self.partitions(topic)]

    def is_led_by(self, topic: str, leaders: list[int]) -> None:
        """Each partition has that leader as soon as every broker has heard of it: the admin client asks any of them."""
        eventually(lambda: self.leaders(topic) == leaders)

    def prefer(self, topic: str) -> None:
        """Give every partition back to its first replica."""
        eventually(lambda: self.is_whole(topic), 60)
        wrong = [part.partition for part in self.partitions(topic) if part.leader != part.replicas[0]]
        if wrong:
            self.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, number) for number in wrong])

    def stored(self, number: int, topic: str, partition: int) -> list[tuple[int, int, int, bytes]]:
        """What a broker has on its disk: base offset, last offset, leader epoch and bytes of each batch."""
        found = []
        for segment in sorted((self.cluster.data_of(number) / f"{topic}-{partition}").glob("*.log")):
            data = segment.read_bytes()
            at = 0
            for batch in read_batches(data):
                end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
                found.append((batch.base_offset, batch.last_offset, batch.partition_leader_epoch, data[at:end]))
                at = end
        return found

    def check_replicas_are_equal(self, topic: str) -> None:
        """Every replica has the same batches, byte for byte."""
        written = 0
        for partition in self.partitions(topic):
            index = partition.partition
            replicas = [node.id for node in partition.replicas]
            eventually(
                lambda index=index, replicas=replicas: (  # type: ignore[misc]
                    len({len(self.stored(number, topic, index)) for number in replicas}) == 1
                )
            )
            first, *others = (self.stored(number, topic, index) for number in replicas)
            for number, other in zip(replicas[1:], others, strict=True):
                assert other == first, f"{topic}-{index} on broker {number} differs from that on {replicas[0]}"
            written += len(first)
        assert written


@contextmanager
def world_of(cluster: AnyCluster) -> Iterator[World]:
    """A cluster for one test: all brokers run again and its topics are gone when it ends."""
    servers = ",".join(broker.bootstrap_servers for broker in [*cluster.ours.values(), *cluster.theirs.values()])
    with AdminClient({"bootstrap.servers": servers, **SOON}) as admin:
        try:
            yield World(cluster, admin)
        finally:
            for broker in cluster.brokers.values():
                if not broker.is_running:
                    broker.start()
            for topic in [name for name in admin.list_topics() if not name.startswith("__")]:
                with suppress(UnknownTopicOrPartitionError):  # another broker may not have heard of its end
                    admin.delete_topics([topic])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*") if path.is_dir())


def records_go_through_every_leader(world: World) -> None:
    """Records produced to each leader reach every replica and every consumer."""
    topic = world.create("led-by-each", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    world.is_led_by(topic, [1, 2, 3])
    with Producer({**world.settings, "acks": "all", "batch.size": 2000}) as producer:
        sent = [producer.send(topic, b"%d" % number, partition=number % 3) for number in range(3000)]
    assert [future.result(30).offset for future in sent[:9]] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    found: list[int] = []
    with Consumer(topic, {**world.settings, "group.id": "each", "auto.offset.reset": "earliest"}) as consumer:
        eventually(lambda: found.extend(int(record.value) for record in consumer.poll(0.2)) or len(found) >= 3000)
    assert sorted(found) == list(range(3000))
    world.check_replicas_are_equal(topic)


def ours_hands_its_leaderships_over(world: World) -> None:
    """A broker of ours that ends hands over what it leads, comes back, and leads again."""
    topic = world.create("handed-over", {0: [3, 1, 2], 1: [3, 2, 1]})
    with Producer({**world.settings, "acks": "all"}) as producer:
        producer.send(topic, b"before", partition=0).result(30)
        began = time.monotonic()
        world.brokers[OURS].stop()
        assert time.monotonic() - began < 10
        # Under ZooKeeper brokers hear of it a moment after the broker that ends, which may be the controller itself.
        eventually(lambda: OURS not in world.leaders(topic))
        producer.send(topic, b"between", partition=0).result(30)
        world.brokers[OURS].start()
        eventually(lambda: world.is_whole(topic))
        world.prefer(topic)
        eventually(lambda: world.leaders(topic) == [OURS, OURS])
        assert producer.send(topic, b"after", partition=0).result(30).offset == 2
    assert "without its consent" not in world.cluster.ours[OURS].log


def a_killed_broker_of_ours_catches_up(world: World) -> None:
    """A broker of ours that was killed under load comes back into all ISRs and leads again."""
    topic = world.create("killed", {0: [3, 1, 2], 1: [1, 3, 2]})
    with Producer({**world.settings, "acks": "all"}) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=number % 2)
        producer.flush()
        world.brokers[OURS].stop(kill=True)
        kept = [producer.send(topic, b"%d" % number, partition=number % 2) for number in range(100, 200)]
        assert max(future.result(60).offset for future in kept) == 99
        world.brokers[OURS].start()
        eventually(lambda: world.is_whole(topic), 60)
        world.prefer(topic)
        eventually(lambda: world.leaders(topic) == [OURS, 1])
        assert producer.send(topic, b"200", partition=0).result(30).offset == 100
    world.check_replicas_are_equal(topic)


def a_topic_that_goes_leaves_no_log(world: World) -> None:
    """A partition that is moved away, or whose topic is deleted, leaves no log with us."""
    topic = world.create("goes", {0: [3, 1], 1: [1, 3]})
    data = world.cluster.data_of(OURS)
    eventually(lambda: {"goes-0", "goes-1"} <= set(files(data)))
    world.admin.alter_partition_reassignments({TopicPartition(topic, 0): [1, 2]})
    eventually(lambda: "goes-0" not in files(data))
    world.admin.delete_topics([topic])
    eventually(lambda: "goes-1" not in files(data))


def settings_reach_our_logs(world: World) -> None:
    """A setting of a topic that is changed while it is in use holds here, too."""
    topic = world.create("configured", {0: [3, 1, 2]})
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    world.admin.incremental_alter_configs({resource: [AlterConfigOp("max.message.bytes", "200")]})
    with Producer({**world.settings, "retries": 0}) as producer:

        def is_refused() -> bool:
            try:
                producer.send(topic, bytes(1000), partition=0).result(30)
            except Exception:  # noqa: BLE001  whatever the client makes of it
                return True
            return False

        eventually(is_refused)


def brokers_of_both_kinds_die_in_turn(world: World) -> None:
    """Brokers of both kinds are killed and stopped in turn under load; nothing is lost."""
    world.create(TOPIC, {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(6)})
    with Traffic(world.settings, **{"group.id": "kills"}) as traffic:
        for turn, number in enumerate((OURS, 1, OURS, 2, OURS)):
            world.brokers[number].stop(kill=turn % 2 == 0)
            traffic.wait_until_read(traffic.sent + 50, 90)
            world.brokers[number].start()
            eventually(lambda: world.is_whole(TOPIC), 90)
        traffic.wait_until_read(traffic.sent, 60)
    world.prefer(TOPIC)
    world.check_replicas_are_equal(TOPIC)


def _killed(node: AnyNode) -> Callable[[], object]:
    node.stop(kill=True)
    return node.start


def _stopped(node: AnyNode) -> Callable[[], object]:
    node.stop()
    return node.start


def _paused(node: AnyNode) -> Callable[[], object]:
    os.kill(node.pid, signal.SIGSTOP)
    return partial(os.kill, node.pid, signal.SIGCONT)


def controllers_fail_in_turn(world: World) -> None:
    """The active controller is killed, stopped and paused for longer than a session lasts; records go on meanwhile.

    Where another one follows it, topics are made and a broker dies before it is back.
    """
    cluster = world.cluster
    assert isinstance(cluster, MixedCluster)
    world.create(TOPIC, {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(6)})
    with Traffic(world.settings, **{"group.id": "controllers"}) as traffic:
        for turn, fail in enumerate((_killed, _stopped, _paused)):
            bring_back = fail(cluster.controllers[world.admin.describe_metadata_quorum().leader_id])
            began = time.monotonic()
            traffic.wait_until_read(traffic.sent + 50, 60)
            if len(cluster.controllers) > 1:
                name = world.create(f"without-{fail.__name__}", {0: [2, 3], 1: [3, 1], 2: [1, 2]})
                broker = cluster.brokers[turn + 1]
                broker.stop(kill=True)
                traffic.wait_until_read(traffic.sent + 50, 60)
                broker.start()
                eventually(lambda name=name: world.is_whole(name), 60)  # type: ignore[misc]
            while time.monotonic() < began + _LONGER_THAN_A_SESSION:
                traffic.wait_until_read(traffic.sent + 10, 60)
            bring_back()
            world.create(f"after-{fail.__name__}", {0: [1, 2], 1: [2, 3], 2: [3, 1]})
            eventually(lambda: world.is_whole(TOPIC), 60)
        traffic.wait_until_read(traffic.sent, 60)
    world.check_replicas_are_equal(TOPIC)


def a_paused_broker_of_ours_harms_nothing(world: World) -> None:
    """A leader of ours that is paused leaves the ISR; what it does when it goes on is refused."""
    topic = world.create("paused", {0: [3, 1, 2]})
    ours = world.cluster.ours[OURS]
    with Producer({**world.settings, "acks": "all"}) as producer:
        producer.send(topic, b"0", partition=0).result(30)
        ours.pause()
        eventually(lambda: OURS not in world.leaders(topic), 60)
        sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(1, 50)]
        assert max(future.result(60).offset for future in sent) == 49
        ours.go_on()
        eventually(lambda: world.is_whole(topic), 60)
        assert producer.send(topic, b"50", partition=0).result(30).offset == 50
    world.check_replicas_are_equal(topic)


def transactions_are_whole_while_brokers_die(world: World) -> None:
    """Copies in transactions are exactly once while brokers of both kinds are killed."""
    source, target = (
        world.create(name, {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(3)}) for name in ("from", "to")
    )
    with Producer(world.settings) as producer:
        for number in range(900):
            producer.send(source, b"%d" % number)
    group = {"group.id": "copies", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    victims = iter((OURS, 1, OURS, 2))
    with (
        Producer({**world.settings, "transactional.id": "copies"}) as producer,
        Consumer(source, {**world.settings, **group, "max.poll.records": 20}) as consumer,
    ):
        producer.init_transactions()
        for turn in range(1000):
            records = consumer.poll(0.5)
            producer.begin_transaction()
            for record in records:
                producer.send(target, record.value)
            if turn % 5 == 4:
                producer.abort_transaction()
                for partition, committed in consumer.committed(consumer.assignment()).items():
                    consumer.seek(partition, committed or 0)
                continue
            offsets = {partition: consumer.position(partition) for partition in consumer.assignment()}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.commit_transaction()
            if sum(offsets.values()) == 900:
                break
            if turn % 12 == 6 and (number := next(victims, None)) is not None:
                eventually(lambda: world.is_whole(target), 90)
                world.brokers[number].stop(kill=True)
                world.brokers[number].start()
    found: list[int] = []
    reading = {"group.id": "check", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    with Consumer(target, {**world.settings, **reading}) as consumer:
        eventually(lambda: found.extend(int(r.value) for r in consumer.poll(0.5)) or len(found) >= 900, 60)
        found.extend(int(record.value) for record in consumer.poll(1.0))
    assert sorted(found) == list(range(900))
    world.check_replicas_are_equal(target)


def groups_and_transactions_move_with_their_leaders(world: World, protocol: str) -> None:
    """Groups and transactions are served by whichever broker leads their partition."""
    topic = world.create(f"grouped-{protocol}", {0: [3, 1, 2], 1: [1, 2, 3]})
    coordinators = set()
    for number in range(8):
        name = f"{protocol}-{number}"
        with Producer({**world.settings, "transactional.id": name}) as producer:
            producer.init_transactions()
            for commits in (True, False, True):
                producer.begin_transaction()
                for index in (0, 1):
                    producer.send(topic, b"%d %d" % (number, commits), partition=index)
                producer.commit_transaction() if commits else producer.abort_transaction()
        reading = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "group.protocol": protocol}
        found: list[bytes] = []
        with Consumer(topic, {**world.settings, **reading, "group.id": name}) as consumer:
            wanted = 4 * (number + 1)
            eventually(lambda: found.extend(r.value for r in consumer.poll(0.2)) or len(found) >= wanted)  # noqa: B023
            consumer.commit()
            coordinators.add(world.admin.describe_groups([name])[name].coordinator.id)
        assert sorted(found) == sorted(b"%d 1" % n for n in range(number + 1) for _ in range(4))
    assert OURS in coordinators
    assert len(coordinators) > 1
    world.check_replicas_are_equal(topic)
