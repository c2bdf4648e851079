"""Race: 10,000 partitions: making them, metadata, a record to each and back, idling, starting again.

Beside Apache Kafka. Each figure is the median of the rounds, every one with a topic of its own on the same brokers.
Run: ./run bench race_partitions [--partitions N] [--rounds N]
"""

from __future__ import annotations

import time

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.topic_partition import TopicPartition
from benchmarks._options import options
from benchmarks._race import Figures, Peer, answered, brokers, cpu_seconds, create_topic, in_turns, resident_mb
from tests.support.core_broker import SocketClient

IDLE_SECONDS = 5.0
#: Apache Kafka makes fewer than 10,000 partitions at once.
AT_ONCE = 5_000


def create(peer: Peer, topic: str, partitions: int) -> float:
    """Return how long it takes until Metadata shows a leader for each partition, in seconds."""
    began = time.perf_counter()
    with AdminClient(bootstrap_servers=peer.bootstrap_servers, request_timeout_ms=120_000) as admin:
        made = min(partitions, AT_ONCE)
        admin.create_topics([NewTopic(topic, num_partitions=made)], timeout=120)
        while made < partitions:
            made = min(partitions, made + AT_ONCE)
            admin.create_partitions({topic: made}, timeout=120)
    with SocketClient(peer.bootstrap_servers, timeout=60) as client:
        while (found := _leaders(client, topic)) < partitions:
            if time.perf_counter() - began > 300:
                raise SystemExit(f"{peer.name}: {found} of {partitions} partitions have a leader after five minutes")
            time.sleep(0.05)
    return time.perf_counter() - began


def _leaders(client: SocketClient, topic: str) -> int:
    response = client.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return sum(part.leader_id >= 0 and not part.error_code for part in response.topics[0].partitions)


def ask_metadata(peer: Peer, topic: str) -> float:
    """Seconds for one Metadata of the topic, the median of several."""
    with SocketClient(peer.bootstrap_servers, timeout=60) as client:
        trips = []
        for _ in range(9):
            began = time.perf_counter()
            _leaders(client, topic)
            trips.append(time.perf_counter() - began)
    return sorted(trips)[len(trips) // 2]


def write(peer: Peer, topic: str, partitions: int) -> float:
    """Seconds to write a record to each partition, acks=all, connecting included."""
    began = time.perf_counter()
    with Producer(bootstrap_servers=peer.bootstrap_servers, linger_ms=5) as producer:
        futures = [producer.send(topic, b"x" * 100, partition=index) for index in range(partitions)]
        producer.flush()
        for future in futures:
            future.result(0)
    return time.perf_counter() - began


def read(peer: Peer, topic: str, partitions: int, records: int) -> float:
    """Seconds to read all of them by one consumer, connecting included."""
    began = time.perf_counter()
    seen = 0
    with Consumer(bootstrap_servers=peer.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        while seen < records:
            seen += len(consumer.poll(1.0, max_records=10_000))
            if time.perf_counter() - began > 300:
                raise SystemExit(f"{peer.name}: {seen} of {records} records after five minutes")
    return time.perf_counter() - began


def idle(peer: Peer) -> float:
    """Return the broker's CPU while it gets no requests, in percent of a core."""
    time.sleep(2)
    before = cpu_seconds(peer.pid())
    time.sleep(IDLE_SECONDS)
    return (cpu_seconds(peer.pid()) - before) / IDLE_SECONDS * 100


def restart(peer: Peer) -> float:
    """Seconds from the start of the process to the first answered Produce and Fetch, after a clean stop."""
    peer.stop()
    began = time.perf_counter()
    peer.start()
    answered(peer)
    return time.perf_counter() - began


def measure(peer: Peer, topic: str, partitions: int, figures: Figures) -> None:
    """Take all figures of one broker, and print each as it comes: Apache Kafka's take minutes."""

    def note(label: str, value: float) -> None:
        figures.add(label, peer, value)
        print(f"  {peer.name}: {label} {value:.3f}", flush=True)

    note("create, until each has a leader", create(peer, topic, partitions))
    note("Metadata of the topic", ask_metadata(peer, topic) * 1e3)
    note("a record to each partition", write(peer, topic, partitions))
    note("a record to each, once more", write(peer, topic, partitions))
    note("read them all", read(peer, topic, partitions, 2 * partitions))
    note("CPU, idle", idle(peer))
    note("memory", resident_mb(peer.pid()))
    note("start after a clean stop", restart(peer))


def main() -> None:
    """Measure and print."""
    given = options(__doc__, partitions=10_000, rounds=1)
    figures = Figures()
    with brokers() as peers:
        for peer in peers:
            create_topic(peer, "bench", 1)
        for number, peer in enumerate(in_turns(peers, given.rounds)):
            measure(peer, f"partitions-{number // 2}", given.partitions, figures)
    figures.report(
        {
            "create, until each has a leader": ("s", 1.0),
            "Metadata of the topic": ("ms", 1.0),
            "a record to each partition": ("s", 1.0),
            "a record to each, once more": ("s", 1.0),
            "read them all": ("s", 1.0),
            "CPU, idle": ("% of one", 0.5),
            "memory": ("MB", 0.5),
            "start after a clean stop": ("s", 0.1),
        }
    )


if __name__ == "__main__":
    main()
