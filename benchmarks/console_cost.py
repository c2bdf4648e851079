"""What an open console costs a broker: producing at full speed without it, and with its overview open. Pairs in turn.

A broker of barnabas with 100 topics, a producer of ours (100 bytes, 6 partitions) and, every other time, a console
whose overview is followed as a page does. The peer is the same broker without the console. A round has to take longer
than the console's samples are apart (5 s), else an open page costs nothing that is seen. What a machine under load
still tells is the share of a core that the open page takes from the broker: more of its throughput cannot be lost.
Run: ./run bench console_cost [--rounds N] [--records N] [--seconds N]
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import median

from barnabas import AdminClient, Broker, NewTopic, Producer
from benchmarks._options import options
from benchmarks._race import cpu_seconds
from tests.support.running_console import RunningConsole

VALUE = b"v" * 100


class Followed:
    """The stream of events that an open page reads."""

    def __init__(self, console: RunningConsole) -> None:
        self.bytes = 0
        self._connection = http.client.HTTPConnection(console.address)
        self._connection.request("GET", "/api/events?kinds=overview", headers={"Cookie": console.cookie})
        self._response = self._connection.getresponse()
        assert self._response.status == 200
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        # The console is killed at the end of a round, in the middle of the stream.
        with suppress(http.client.HTTPException, OSError):
            while part := self._response.read1(65536):
                self.bytes += len(part)


@contextmanager
def open_console(broker: Broker) -> Iterator[Followed]:
    """Keep a page open, from its first picture on."""
    with RunningConsole(broker.bootstrap_servers) as console:
        followed = Followed(console.log_in())
        while followed.bytes == 0:
            time.sleep(0.05)
        yield followed


def produce(broker: Broker, records: int) -> tuple[float, float]:
    """Return records per second, and the broker's CPU of one in microseconds."""
    assert broker.pid is not None
    cpu, begun = cpu_seconds(broker.pid), time.perf_counter()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(records):
            producer.send("load", VALUE)
        producer.flush()
    return records / (time.perf_counter() - begun), (cpu_seconds(broker.pid) - cpu) / records * 1e6


def share_of_a_core(broker: Broker, seconds: float) -> float:
    """Return how much of a core the broker takes while nothing is produced."""
    assert broker.pid is not None
    before = cpu_seconds(broker.pid)
    time.sleep(seconds)
    return (cpu_seconds(broker.pid) - before) / seconds


def main() -> None:
    """Print a line for each round, and the medians of the ratios."""
    found = options(__doc__, rounds=5, records=2_000_000, seconds=20.0)
    rates, costs = [], []
    with Broker() as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(f"topic-{number}", 1) for number in range(100)])
            admin.create_topics([NewTopic("load", 6, configs={"retention.bytes": "100000000"})])
        produce(broker, found.records // 4)
        for number in range(found.rounds):
            alone = produce(broker, found.records)
            with open_console(broker) as followed:
                watched = produce(broker, found.records)
            rates.append(watched[0] / alone[0])
            costs.append(watched[1] / alone[1])
            print(
                f"round {number + 1}: {alone[0] / 1e6:.2f} M records/s, {watched[0] / 1e6:.2f} M with the console; "
                f"broker {alone[1]:.3f} and {watched[1]:.3f} us a record; {followed.bytes / 1024:.0f} KiB for the page"
            )
        alone_share = share_of_a_core(broker, found.seconds)
        with open_console(broker):
            open_share = share_of_a_core(broker, found.seconds) - alone_share
    print(f"an open page takes {open_share * 100:.2f}% of a core from the broker (wanted: 2%)")
    print(f"with the console open, median of {found.rounds}: {median(rates):.3f} times the rate (wanted: 0.98)")
    print(f"  {median(costs):.3f} times the broker's CPU per record")


if __name__ == "__main__":
    main()
