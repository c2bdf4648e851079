"""A topic searched by the console, beside confluent-kafka and a loop that decodes each record, as other consoles do.

Two million records of JSON (100 bytes) in six partitions of a broker of barnabas, read from beginning to end with each
filter. The console's figure is its own (`Progress`): what a person sees in the strip below the filter. The peer decodes
values in Python: it is a lower bound for what a console does that looks at each record by itself. Goal: a million
records a second. Run: ./run bench console_scan [--rounds N] [--records N]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote

import confluent_kafka

from barnabas import AdminClient, Broker, NewTopic, Producer
from benchmarks._options import options
from tests.support.running_console import RunningConsole

PARTITIONS = 6
TOPIC = "orders"


class Case(NamedTuple):
    """A filter, and what a loop over records asks in its place; both match one record at most."""

    name: str
    filter: str
    is_wanted: Callable[[Any], bool]


def _document(message: Any) -> Any:
    return json.loads(message.value())


CASES = (
    Case("text in values", 'value contains "needle"', lambda m: b"needle" in m.value()),
    Case("a number in JSON", "value.n = -1", lambda m: _document(m)["n"] == -1),
    Case("a larger number", "value.n > 1e9", lambda m: _document(m)["n"] > 1e9),
    Case("a text in JSON", 'value.city = "nowhere"', lambda m: _document(m)["city"] == "nowhere"),
    Case("beginning of keys", 'key startswith "none-"', lambda m: m.key().startswith(b"none-")),
    Case("every record", "offset < 0", lambda m: m.offset() < 0),
)


def fill(broker: Broker, records: int) -> None:
    """Write documents of about a hundred bytes."""
    with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(records):
            value = b'{"n": %d, "city": "city-%d", "carrier": "UA", "origin": "EWR", "padding": "%030d"}'
            producer.send(
                TOPIC, value % (number, number % 100, number), b"key-%d" % number, partition=number % PARTITIONS
            )


def by_console(console: RunningConsole, case: Case, records: int) -> float:
    """Return the records a second that the console's strip shows at the end."""
    words = f"from=beginning&limit=10&seconds=600&filter={quote(case.filter)}"
    progress = [found for kind, found in console.stream(f"/api/topics/{TOPIC}/scan?{words}") if kind == "progress"][-1]
    if progress["scanned"] < records:
        sys.exit(f"{case.name}: the console has scanned {progress['scanned']} of {records} records")
    return float(progress["scanned"] / progress["seconds"])


def by_loop(broker: Broker, case: Case, records: int) -> float:
    """Return the records a second of a loop over confluent-kafka's messages."""
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "scan", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "fetch.min.bytes": 1,
    })  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    seen = matched = 0
    begun = time.perf_counter()
    while seen < records:
        for message in consumer.consume(10_000, 1.0):
            seen += 1
            matched += case.is_wanted(message)
    took = time.perf_counter() - begun
    consumer.close()
    return records / took


def main() -> None:
    """Print a line for each filter: records a second, and the ratio, as medians of rounds in turn."""
    found = options(__doc__, rounds=3, records=2_000_000)
    with Broker() as broker:
        fill(broker, found.records)
        with RunningConsole(broker.bootstrap_servers) as console:
            console.log_in()
            by_console(console, CASES[0], found.records)
            for case in CASES:
                ours, others = [], []
                for _ in range(found.rounds):
                    ours.append(by_console(console, case, found.records))
                    others.append(by_loop(broker, case, found.records))
                ratio = median(own / other for own, other in zip(ours, others, strict=True))
                print(
                    f"{case.name:18} {median(ours) / 1e6:.2f} M records/s, a loop over confluent-kafka "
                    f"{median(others) / 1e6:.2f} M: {ratio:.1f} times (wanted: 1 M/s)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
