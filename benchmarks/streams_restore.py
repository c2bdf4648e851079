"""Restoring a state store from its changelog topic: entries/s and CPU per entry, in memory and on disk.

`./run bench streams_restore [--stores key-value,window,session,versioned] [--entries N] [--broker apache]`
One partition, one process that reads: it is what a task of `barnabas.streams` does that comes to another machine. Keys
come in an order of their own; the broker is a process beside it. Key-value stores have each key once. Windows and
sessions are of a day that goes on with the entries, in a store that keeps two: three segments. A versioned store has
four versions of each key, one after the other, and an entry is a version. The goal is a million entries a second.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.streams import Serdes, StoreBuilder
from barnabas.streams.config import StreamsConfig
from barnabas.streams.queries.store_view import ViewContext
from barnabas.streams.serdes.window_keys import session_key, window_key
from barnabas.streams.state.disk import DiskBackend
from barnabas.streams.state.memory import MemoryBackend
from barnabas.streams.state.store_factory import make_store
from barnabas.streams.store_changelog_reader import ChangelogReader
from barnabas.streams.topology.stores import Stores
from tests.peers.apache_kafka import ApacheKafka

#: Coprime to any number of entries that is asked for.
_STEP = 15_485_863

_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS
_WINDOW_MS = 10 * _MINUTE_MS
_VERSIONS = 4


class Kind(NamedTuple):
    """A store, and the key of its changelog for a number of a key and a time in milliseconds."""

    builder: StoreBuilder
    key: Callable[[int, int], bytes]
    #: So many entries have one key.
    repeated: int = 1
    #: The maps that have an entry for each key begin so.
    maps: str = "counts"


def _name(number: int) -> bytes:
    return b"key-%010d" % number


_SERDES = Serdes.string(), Serdes.long()

KINDS = {
    "key-value": Kind(
        Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("counts"), *_SERDES),
        lambda number, now: _name(number),
    ),
    "window": Kind(
        Stores.timestamped_window_store_builder(
            Stores.persistent_timestamped_window_store("counts", 2 * _DAY_MS, _WINDOW_MS), *_SERDES
        ),
        lambda number, now: window_key(_name(number), now - now % _WINDOW_MS, 0),
    ),
    "session": Kind(
        Stores.session_store_builder(Stores.persistent_session_store("counts", 2 * _DAY_MS), *_SERDES),
        lambda number, now: session_key(_name(number), now - now % _MINUTE_MS, now),
    ),
    "versioned": Kind(
        Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("counts", 2 * _DAY_MS), *_SERDES
        ),
        lambda number, now: _name(number),
        repeated=_VERSIONS,
        maps="counts-latest",
    ),
}


def topic(store: str) -> str:
    """Return the name of a store's changelog."""
    return f"restored-{store}-changelog"


def fill(servers: str, store: str, entries: int) -> None:
    """Write the changelog of a store of counts, as Kafka's has it."""
    import pyarrow as pa

    kind, began = KINDS[store], 20_000 * _DAY_MS
    distinct = entries // kind.repeated
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic(store), 1, configs={"cleanup.policy": "compact"})])
    with Producer(bootstrap_servers=servers) as producer:
        for start in range(0, entries, 100_000):
            numbers = range(start, min(start + 100_000, entries))
            times = [began + number * _DAY_MS // entries for number in numbers]
            columns = {
                "key": [kind.key(n * _STEP % distinct, now) for n, now in zip(numbers, times, strict=True)],
                "value": [n.to_bytes(8, "big") for n in numbers],
                "timestamp": times,
            }
            producer.send_table(topic(store), pa.table(columns)).result()


def restore(servers: str, store: str, backend: MemoryBackend | DiskBackend, entries: int) -> tuple[float, float]:
    """Return seconds and seconds of CPU that restoring took."""
    kind = KINDS[store]
    made = make_store(kind.builder, backend)
    made.logged = False
    made.init(ViewContext(StreamsConfig({"application.id": "restored"}), topic(store)))
    reader = ChangelogReader({"bootstrap.servers": servers})
    began, cpu = time.perf_counter(), time.process_time()
    reader.restore(made, TopicPartition(topic(store), 0), entries)
    if isinstance(backend, DiskBackend):
        backend.commit(b"")
    took = time.perf_counter() - began, time.process_time() - cpu
    assert sum(len(backend.open(name)) for name in backend.names(kind.maps)) == entries // kind.repeated
    reader.close()
    return took


def measure(servers: str, store: str, entries: int, folder: Path | None) -> None:
    """Restore a store, on disk if there is a folder, and tell."""
    backend = MemoryBackend() if folder is None else DiskBackend(folder)
    seconds, cpu = restore(servers, store, backend, entries)
    rate, each = entries / seconds / 1e6, cpu / entries * 1e6
    line = f"{store:10} {'disk' if folder else 'memory':7} {rate:5.2f} M entries/s, {each:.2f} us of CPU an entry"
    if isinstance(backend, DiskBackend):
        line += f", {backend.size() / entries:.0f} bytes on disk"
        backend.close()
    print(line, flush=True)


def main() -> None:
    """Parse, fill, restore in turn, tell."""
    parser = argparse.ArgumentParser(prog="./run bench streams_restore", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--stores", default=",".join(KINDS))
    parser.add_argument("--entries", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--broker", choices=["barnabas", "apache"], default="barnabas")
    arguments = parser.parse_args()
    entries = arguments.entries - arguments.entries % _VERSIONS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="restore-")))
        broker = stack.enter_context(ApacheKafka() if arguments.broker == "apache" else Broker(log_retention_ms=-1))
        for store in arguments.stores.split(","):
            fill(broker.bootstrap_servers, store, entries)
            for number in range(arguments.rounds):
                measure(broker.bootstrap_servers, store, entries, None)
                measure(broker.bootstrap_servers, store, entries, folder / f"{store}-{number}")


if __name__ == "__main__":
    main()
