"""The end of a million locks: the longest turn of the broker's loop while share-partitions free their records.

`./run bench share_lock_expiry [--partitions N] [--records N] [--piece N]`
A broker in memory, without sockets. One member acquires all records of all partitions and says nothing more of them;
then the locks end at one moment, and every tick of the broker is timed by itself: CPU of the thread, so that what runs
beside counts little, without Python's collector, which looks at all of the process now and then; how much longer that
takes for the records in flight is told apart. `--piece` is how many records a lock has at once; with 1 every second
record is acknowledged first, so that no two neighbours are alike: the most ranges that there can be.
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

from tests.support.core_broker import CoreBroker, batch, create, produce
from tests.support.share_member import ACCEPT, ShareMember
from tests.unit.broker.share.configs import set_group

_LOCK_SECONDS = 60


def _filled(partitions: int, records: int) -> tuple[CoreBroker, ShareMember]:
    """Return a broker with so many records in each partition, and a member of a group."""
    broker = CoreBroker(
        {
            "group.share.partition.max.record.locks": records,
            "group.share.max.partition.max.record.locks": records,
            "group.share.record.lock.duration.ms": _LOCK_SECONDS * 1000,
            "share.coordinator.state.topic.num.partitions": 10,
        }
    )
    client = broker.connect()
    client.request(create("t", partitions), 7)
    set_group(broker, "share.auto.offset.reset", "earliest")
    member = ShareMember(broker)
    member.heartbeat()
    values = [b""] * 500
    for partition in range(partitions):
        for _ in range(records // len(values)):
            request = produce("t", batch(*values))
            request.topic_data[0].partition_data[0].index = partition
            client.request(request, 12)
    return broker, member


def _acquire(broker: CoreBroker, member: ShareMember, partitions: int, records: int, piece: int) -> int:
    """Have the member get all records; returns how many ranges they are."""
    for partition in range(partitions):
        _take(member, partition, records, max(piece, 500))
    if piece == 1:
        for partition in range(partitions):
            for first in range(0, records, 500):
                member.acknowledge(*((n, n, ACCEPT) for n in range(first, first + 500, 2)), partition=partition)
    held = broker.node.state.share_partition_manager.led_share_partitions
    return sum(len(led.state.records) for led in held if led.state is not None)


def _take(member: ShareMember, partition: int, records: int, piece: int) -> None:
    taken = 0
    while taken < records:
        taken += _count(member.send_fetch(partition=partition, max_records=piece, batch_size=piece, max_bytes=1 << 24))


def _count(response: Any) -> int:
    return sum(
        one.last_offset - one.first_offset + 1
        for topic in response.responses
        for part in topic.partitions
        for one in part.acquired_records
    )


def _collect() -> float:
    """Return the seconds of CPU that a full collection takes where there is no garbage."""
    gc.collect()
    began = time.thread_time()
    gc.collect()
    return time.thread_time() - began


def main() -> None:
    """Time the ticks, print the longest."""
    parser = argparse.ArgumentParser(prog="./run bench share_lock_expiry", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--records", type=int, default=10_000, help="of each partition")
    parser.add_argument("--piece", type=int, default=500)
    args = parser.parse_args()
    broker, member = _filled(args.partitions, args.records)
    empty = _collect()
    ranges = _acquire(broker, member, args.partitions, args.records, args.piece)
    broker.now += _LOCK_SECONDS + 1
    core, ticks, collected = broker.node.core, [], [0.0]

    def collecting(phase: str, info: dict[str, int]) -> None:
        now = time.thread_time()
        collected[0] += now if phase == "stop" else -now

    full = _collect()
    gc.callbacks.append(collecting)
    while core.next_deadline() <= broker.now:
        collected[0], began = 0.0, time.thread_time()
        core.tick(broker.instant)
        ticks.append(time.thread_time() - began - collected[0])
    ticks.sort()
    print(f"{args.partitions * args.records:,} records in {ranges:,} ranges, freed in {len(ticks):,} ticks")
    print(f"longest {ticks[-1] * 1e3:.2f} ms, 99 % {ticks[len(ticks) * 99 // 100] * 1e3:.2f} ms, "
          f"together {sum(ticks):.2f} s; a collection {(full - empty) * 1e3:.1f} ms more")  # fmt: skip


if __name__ == "__main__":
    main()
