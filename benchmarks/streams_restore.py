"""Restoring a state store from its changelog topic: entries/s and CPU per entry, in memory and on disk.

`./run bench streams_restore [--entries N] [--broker apache]`
One partition, one process that reads: it is what a task of `barnabas.streams` does that comes to another machine. Keys
come in an order of their own, each once; the broker is a process beside it. The goal is a million entries a second.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.streams import Serdes
from barnabas.streams.config import StreamsConfig
from barnabas.streams.queries.store_view import ViewContext
from barnabas.streams.state.disk import DiskBackend
from barnabas.streams.state.memory import MemoryBackend
from barnabas.streams.state.store_factory import make_store
from barnabas.streams.store_changelog_reader import ChangelogReader
from barnabas.streams.topology.stores import Stores
from tests.peers.apache_kafka import ApacheKafka

TOPIC = "restored-counts-changelog"

#: Coprime to any number of entries that is asked for.
_STEP = 15_485_863


def fill(servers: str, entries: int) -> None:
    """Write a changelog of counts by key."""
    import pyarrow as pa

    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, configs={"cleanup.policy": "compact"})])
    with Producer(bootstrap_servers=servers) as producer:
        for start in range(0, entries, 100_000):
            numbers = range(start, min(start + 100_000, entries))
            keys = [b"key-%010d" % (number * _STEP % entries) for number in numbers]
            producer.send_table(
                TOPIC, pa.table({"key": keys, "value": [n.to_bytes(8, "big") for n in numbers]})
            ).result()


def restore(servers: str, backend: MemoryBackend | DiskBackend, entries: int) -> tuple[float, float]:
    """Return seconds and seconds of CPU that restoring took."""
    supplier = Stores.persistent_timestamped_key_value_store("counts")
    builder = Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.long())
    store = make_store(builder, backend)
    store.logged = False
    store.init(ViewContext(StreamsConfig({"application.id": "restored"}), TOPIC))
    reader = ChangelogReader({"bootstrap.servers": servers})
    began, cpu = time.perf_counter(), time.process_time()
    reader.restore(store, TopicPartition(TOPIC, 0), entries)
    if isinstance(backend, DiskBackend):
        backend.commit(b"")
    took = time.perf_counter() - began, time.process_time() - cpu
    assert store.approximate_num_entries() == entries  # type: ignore[attr-defined]
    reader.close()
    return took


def main() -> None:
    """Parse, fill, restore in turn, tell."""
    parser = argparse.ArgumentParser(prog="./run bench streams_restore", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--entries", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--broker", choices=["barnabas", "apache"], default="barnabas")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="restore-")))
        broker = stack.enter_context(ApacheKafka() if arguments.broker == "apache" else Broker(log_retention_ms=-1))
        fill(broker.bootstrap_servers, arguments.entries)
        for number in range(arguments.rounds):
            for kind in ("memory", "disk"):
                backend = MemoryBackend() if kind == "memory" else DiskBackend(folder / str(number))
                seconds, cpu = restore(broker.bootstrap_servers, backend, arguments.entries)
                rate, each = arguments.entries / seconds, cpu / arguments.entries * 1e6
                print(f"{kind:8} {rate / 1e6:5.2f} M entries/s, {each:.2f} us of CPU an entry", flush=True)
                if isinstance(backend, DiskBackend):
                    print(f"{'':8} {backend.size() / arguments.entries:.0f} bytes on disk an entry")
                    backend.close()


if __name__ == "__main__":
    main()
