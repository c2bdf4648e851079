"""Controller: CPU and memory of a cluster that grows to 100,000 partitions. Peer: the same with a tenth of them.

Three controllers on a quorum in memory and the metadata loader of a broker go through the life of a cluster, without
sockets and disks: brokers register, topics of 100 partitions with three replicas are created, another controller takes
over, a snapshot is written and loaded, ISRs change, a broker fails. Each step is measured in CPU seconds: what is
linear costs ten times as much.
Run: ./run bench controller_growth [--partitions N] [--brokers N]
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import TypeVar

from barnabas.broker.metadata.image_records import image_records
from barnabas.broker.metadata.metadata_records import encode_record
from barnabas.broker.raft.metadata_loader import MetadataLoader
from barnabas.broker.raft.observed_log import CommittedBatch
from benchmarks._options import options
from benchmarks._race import resident_mb
from tests.support.controllers import Controllers

_PER_TOPIC = 100
T = TypeVar("T")


class Steps:
    """Runs steps, and keeps what each took of the processor."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def take(self, name: str, step: Callable[[], T]) -> T:
        """Run one."""
        gc.collect()
        began = time.process_time()
        found = step()
        self.seconds[name] = time.process_time() - began
        return found


def measure(partitions: int, brokers: int) -> tuple[dict[str, float], float]:
    """Return the CPU seconds of each step, and the megabytes that the metadata take in controllers and loader."""
    steps = Steps()
    before = resident_mb(os.getpid())
    controllers = Controllers(3)
    controllers.elect(100)
    topics = partitions // _PER_TOPIC
    steps.take("brokers registered", lambda: controllers.start(*range(1, brokers + 1)))
    steps.take("topics created, and replayed by two standbys", lambda: _create(controllers, topics))
    steps.take("another controller active", lambda: controllers.elect(101))
    records = steps.take("snapshot made", lambda: _snapshot(controllers))
    loader = MetadataLoader(lambda image: None)
    batch = CommittedBatch(len(records), 1, records)
    steps.take("metadata loaded by a broker", lambda: loader.load_batches([batch]))
    loaded = sum(len(topic.partitions) for topic in loader.image.topics.values())
    if loaded != partitions:
        raise RuntimeError(f"a broker has {loaded} of {partitions} partitions")
    steps.take("1,000 ISRs changed", lambda: _shrink(controllers, 1000))
    steps.take("1,000 heartbeats", lambda: _beat(controllers, 1000, brokers))
    led = _led_by(controllers, 1)
    steps.take(f"a broker fenced that led {led}", lambda: _fence(controllers, 1))
    if _led_by(controllers, 1):
        raise RuntimeError("the fenced broker leads")
    gc.collect()
    return steps.seconds, resident_mb(os.getpid()) - before


def _create(controllers: Controllers, topics: int) -> None:
    for number in range(topics):
        response = controllers.create(f"topic-{number}", partitions=_PER_TOPIC, factor=3)
        if response.topics[0].error_code:
            raise RuntimeError(f"topic-{number} was refused: {response}")


def _snapshot(controllers: Controllers) -> list[bytes]:
    return [encode_record(message, version) for message, version in image_records(controllers.active.committed_image)]


def _shrink(controllers: Controllers, times: int) -> None:
    topics = len(controllers.active.state.image.topics)
    for number in range(times):
        name, index = f"topic-{number % topics}", number // topics
        partition = controllers.partition(name, index)
        isr = [replica for replica in partition.isr if replica != partition.replicas[-1]]
        if controllers.alter_partition(name, isr or [partition.leader], index).error_code:
            raise RuntimeError(f"{name}-{index} keeps its ISR")


def _beat(controllers: Controllers, times: int, brokers: int) -> None:
    for number in range(times):
        controllers.heartbeat(1 + number % brokers)


def _led_by(controllers: Controllers, broker: int) -> int:
    topics = controllers.active.committed_image.topics.values()
    return sum(one.leader == broker for topic in topics for one in topic.partitions.values())


def _fence(controllers: Controllers, broker: int) -> None:
    controllers.heartbeat(broker, want_fence=True)


def main() -> None:
    """Print one line for each step."""
    given = options(__doc__, partitions=100_000, brokers=30)
    few, few_mb = measure(given.partitions // 10, given.brokers)
    many, many_mb = measure(given.partitions, given.brokers)
    print(f"{'CPU seconds, by partitions':46} {given.partitions // 10:>9,} {given.partitions:>9,}")
    for (name, seconds), more in zip(few.items(), many.values(), strict=True):
        print(f"{name:46} {seconds:9.3f} {more:9.3f}")
    print(f"{'MB of three controllers and a broker':46} {few_mb:9.0f} {many_mb:9.0f}")


if __name__ == "__main__":
    main()
