"""A disk with 50 ms per fsync: what clients that do not ask for a flush feel of those that do, against Apache Kafka.

Four producers send to a topic with flush.messages=1, or one client creates topics (also automatically), changes
settings or takes producer ids; meanwhile one client sends single
records to another topic, one at a time, and its round trips are what counts. Both brokers run with the same library
preloaded, which makes fsync and fdatasync slow. Run: ./run bench broker_slow_disk [--rounds N] [--seconds S]
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from benchmarks._options import options
from benchmarks._race import Figures, Peer, brokers, in_turns
from tests.support.core_broker import SocketClient, batch, create, produce

FSYNC_MS = 50
PRODUCERS = 4


def preload(directory: str) -> None:
    """Let all processes that are started from now on have a slow disk."""
    library = f"{directory}/slow_fsync.so"
    source = Path(__file__).with_name("slow_fsync.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, str(source), "-ldl"], check=True)
    os.environ["LD_PRELOAD"] = library
    os.environ["SLOW_FSYNC_MS"] = str(FSYNC_MS)


def send(client: SocketClient, topic: str) -> None:
    """One record, acknowledged."""
    records = batch(bytes(100), now_ms=time.time_ns() // 1_000_000)
    response = client.request(produce(topic, records), 9)
    code = response.responses[0].partition_responses[0].error_code
    if code:
        raise SystemExit(f"{topic}: error {code}")


class Load:
    """Clients that do something again and again, each in a thread, until the block ends; how often they did."""

    def __init__(self, peer: Peer, clients: int, work: Callable[[SocketClient, str], None]) -> None:
        self.done = 0
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(peer, work, at)) for at in range(clients)]

    def _run(self, peer: Peer, work: Callable[[SocketClient, str], None], at: int) -> None:
        with SocketClient(peer.bootstrap_servers, timeout=60) as client:
            number = 0
            while not self._end.is_set():
                work(client, f"{time.monotonic_ns()}-{at}-{number}")
                number += 1
                self.done += 1

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


def round_trips(peer: Peer, seconds: float) -> list[float]:
    """Round trips of single records to a topic that is not flushed, in milliseconds, sorted."""
    trips = []
    with SocketClient(peer.bootstrap_servers, timeout=60) as client:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            send(client, "others")
            trips.append((time.perf_counter() - start) * 1000)
            time.sleep(0.002)
    return sorted(trips)


def create_one(client: SocketClient, name: str) -> None:
    """Create a topic of one partition."""
    code = client.request(create(f"made-{name}"), 7).topics[0].error_code
    if code:
        raise SystemExit(f"CreateTopics: error {code}")


def create_automatically(client: SocketClient, name: str) -> None:
    """Ask for the metadata of a topic that is not there, until it is."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"auto-{name}")], allow_auto_topic_creation=True)
    while client.request(request, 12).topics[0].error_code:
        time.sleep(0.005)


def change_settings(client: SocketClient, name: str) -> None:
    """Give a topic another setting."""
    value = str(time.time_ns() // 1000)
    config = AlterableConfig(name="retention.ms", config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name="flushed", configs=[config])
    code = client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code
    if code:
        raise SystemExit(f"IncrementalAlterConfigs: error {code}")


def ask_for_ids(client: SocketClient, name: str) -> None:
    """Take 100 producer ids; a block of them is a commit."""
    for _ in range(100):
        while client.request(InitProducerIdRequest(transactional_id=None), 4).error_code:
            time.sleep(0.005)


LOADS: dict[str, tuple[int, Callable[[SocketClient, str], None]]] = {
    "nothing else": (0, lambda client, name: None),
    "flush.messages=1": (PRODUCERS, lambda client, name: send(client, "flushed")),
    "CreateTopics": (1, create_one),
    "automatic topics": (1, create_automatically),
    "IncrementalAlterConfigs": (1, change_settings),
    "InitProducerId": (1, ask_for_ids),
}


def main() -> None:
    """Measure and print."""
    given = options(__doc__, rounds=3, seconds=5.0)
    figures = Figures()
    with tempfile.TemporaryDirectory() as directory:
        preload(directory)
        with brokers() as peers:
            for peer in peers:
                with SocketClient(peer.bootstrap_servers, timeout=60) as client:
                    client.request(create("others"), 7)
                    client.request(create("flushed", flush_messages="1"), 7)
                time.sleep(2)
                round_trips(peer, 3)  # Java compiles what it runs often
            for peer in in_turns(peers, given.rounds):
                for label, (clients, work) in LOADS.items():
                    with Load(peer, clients, work) as load:
                        trips = round_trips(peer, given.seconds)
                    figures.add(f"p50 of others beside {label}", peer, trips[len(trips) // 2])
                    figures.add(f"p99 of others beside {label}", peer, trips[int(len(trips) * 0.99)])
                    if clients:
                        figures.add(f"done meanwhile: {label}", peer, load.done / given.seconds)
    targets: dict[str, tuple[str, float | None]] = {}
    for label, (clients, _) in LOADS.items():
        targets[f"p50 of others beside {label}"] = ("ms", 1.0)
        targets[f"p99 of others beside {label}"] = ("ms", 1.0)
        if clients:
            targets[f"done meanwhile: {label}"] = ("/s", 1.0)
    figures.report(targets)


if __name__ == "__main__":
    main()
