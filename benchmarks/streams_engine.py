"""The engine of streams: CPU per record in the TopologyTestDriver and in a bare task, beside Kafka's own driver.

Topologies: filter, map and a sink; a count; counts in tumbling windows, sessions and sliding windows, and in windows
with suppress; a stream joined with a table, with another stream, and outer with another stream; a table joined with
another by a foreign key. Stores are in memory, 1,000 keys, each update is sent on, and nothing reads the outputs. Every
measurement is a process of its own, in turns; the median of the rounds is printed. Java's figure is that of its last
rounds, once it is compiled. At the end: how long a whole test of ten records takes, from the StreamsBuilder to the end
of its driver, in milliseconds of wall clock.

Run: ./run bench streams_engine [--records N] [--rounds N] [--against SRC] [--java 0]; SRC is the `src` directory of
another clone, whose engine then takes turns with ours.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from barnabas.streams import (
    BufferConfig,
    Consumed,
    JoinWindows,
    KStream,
    Materialized,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TaskId,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)
from barnabas.streams.engine.record import InputRecord
from barnabas.streams.engine.task import Task, settings_of
from barnabas.streams.topology.processor_topology import build_topology
from benchmarks._options import parser

KEYS = 1000
CONFIG = {
    "application.id": "bench",
    "bootstrap.servers": "unused:9092",
    "statestore.cache.max.bytes": 0,
    "default.key.serde": Serdes.string(),
    "default.value.serde": Serdes.long(),
}
#: How many records a bare task is given at a time.
BATCH = 1000
JAVA = Path(__file__).parent / "java" / "StreamsEngine.java"

Build = Callable[[StreamsBuilder, KStream[str, int]], Any]


def _filter_map_sink(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    stream.filter(lambda key, value: value % 10 != 0).map(lambda key, value: (key, value * 2)).to("out")


def _count(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    stream.group_by_key().count(Materialized.as_("counts")).to_stream().to("out")


def _windowed_count(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    windows = TimeWindows.of_size(seconds=1)
    counted = stream.group_by_key().windowed_by(windows).count(Materialized.as_("counts"))
    counted.to_stream(lambda key, value: key.key).to("out")


def _stream_table_join(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    stream.join(builder.table("table"), lambda left, right: left + right).to("out")


def _session_count(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    windows = SessionWindows.of_inactivity_gap(seconds=2)
    counted = stream.group_by_key().windowed_by(windows).count(Materialized.as_("counts"))
    counted.to_stream(lambda key, value: key.key).to("out")


def _sliding_count(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    windows = SlidingWindows.of_time_difference(seconds=2)
    counted = stream.group_by_key().windowed_by(windows).count(Materialized.as_("counts"))
    counted.to_stream(lambda key, value: key.key).to("out")


def _suppressed_count(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    windows = TimeWindows.of_size(seconds=5)
    counted = stream.group_by_key().windowed_by(windows).count(Materialized.as_("counts"))
    closed = counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    closed.to_stream(lambda key, value: key.key).to("out")


def _stream_stream_join(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    _join_streams(builder, stream.join)


def _stream_stream_outer_join(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    _join_streams(builder, stream.outer_join)


def _join_streams(builder: StreamsBuilder, join: Any) -> None:
    other = builder.stream("other", Consumed.with_(Serdes.string(), Serdes.long()))
    joined = StreamJoined.with_(Serdes.string(), Serdes.long(), Serdes.long())
    windows = JoinWindows.of_time_difference(seconds=1)
    join(other, lambda left, right: (left or 0) + (right or 0), windows, joined).to("out")


def _foreign_key_join(builder: StreamsBuilder, stream: KStream[str, int]) -> None:
    rows = stream.to_table(Materialized.as_("rows"))
    joined = rows.join(builder.table("table"), lambda value: f"key-{value % KEYS}", lambda left, right: left + right)
    joined.to_stream().to("out")


CASES: dict[str, Build] = {
    "filter-map-sink": _filter_map_sink,
    "count": _count,
    "windowed-count": _windowed_count,
    "stream-table-join": _stream_table_join,
    "session-count": _session_count,
    "sliding-count": _sliding_count,
    "suppressed-count": _suppressed_count,
    "stream-stream-join": _stream_stream_join,
    "stream-stream-outer-join": _stream_stream_outer_join,
    "foreign-key-join": _foreign_key_join,
}
#: The second topic of a case: filled before, or read in turn with the first.
TABLES = {"stream-table-join", "foreign-key-join"}
IN_TURN = {"stream-stream-join", "stream-stream-outer-join"}


def topology(name: str) -> Topology:
    """Return the topology of a case."""
    builder = StreamsBuilder()
    CASES[name](builder, builder.stream("in", Consumed.with_(Serdes.string(), Serdes.long())))
    return builder.build()


def in_the_driver(name: str, count: int) -> float:
    """Pipe `count` records; return the CPU seconds that each took."""
    with TopologyTestDriver(topology(name), CONFIG, 0) as driver:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.long())
        topics = [topic]
        if name in IN_TURN:
            topics.append(driver.create_input_topic("other", Serdes.string(), Serdes.long()))
        if name in TABLES:
            table = driver.create_input_topic("table", Serdes.string(), Serdes.long())
            for number in range(KEYS):
                table.pipe_input(number, f"key-{number}", timestamp=0)
        start = time.process_time()
        for number in range(count):
            at = number // len(topics)
            topics[number % len(topics)].pipe_input(number, f"key-{at % KEYS}", timestamp=at)
        return (time.process_time() - start) / count


def in_a_task(name: str, count: int) -> float:
    """Process `count` records in batches; return the CPU seconds that each took."""
    made = topology(name)
    made.builder.rewrite_topology(CONFIG)
    task = Task(build_topology(made.builder), TaskId(0, 0), settings_of(CONFIG))
    if name in TABLES:
        table = [InputRecord("table", 0, at, 0, b"key-%d" % at, at.to_bytes(8, "big"), []) for at in range(KEYS)]
        task.process(table, 0)
    records = [InputRecord("in", 0, at, at, b"key-%d" % (at % KEYS), at.to_bytes(8, "big"), []) for at in range(count)]
    start = time.process_time()
    for at in range(0, count, BATCH):
        task.process(records[at : at + BATCH], 0)
    return (time.process_time() - start) / count


def a_test_of_ten_records(name: str) -> float:
    """Build the topology, pipe ten records and read what they give; return the seconds of wall clock."""
    start = time.perf_counter()
    with TopologyTestDriver(topology(name), CONFIG) as driver:
        records = driver.create_input_topic("in", Serdes.string(), Serdes.long())
        for number in range(10):
            records.pipe_input(number, f"key-{number}", timestamp=number)
        driver.create_output_topic("out", Serdes.string(), Serdes.long()).read_records_to_list()
    return time.perf_counter() - start


PLACES: dict[str, Callable[[str, int], float]] = {"driver": in_the_driver, "task": in_a_task}


def _child(name: str, place: str, count: int, source: str | None) -> float:
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = source
    command = [sys.executable, "-m", "benchmarks.streams_engine", "--case", name, "--place", place]
    done = subprocess.run(
        [*command, "--records", str(count)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} in the {place} failed: {done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def _java(name: str, count: int) -> float:
    from tests.peers import apache_kafka

    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", apache_kafka.test_driver_classpath(), str(JAVA)]
    done = subprocess.run([*command, name, str(count), "7"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Kafka's driver failed: {done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1]) / 1e9


def race(name: str, count: int, rounds: int, against: str | None, java: bool) -> None:
    """Measure one case everywhere, in turns, and print it."""
    turns: dict[str, Callable[[], float]] = {}
    for place in PLACES:
        turns[f"barnabas, {place}"] = partial(_child, name, place, count, None)
        if against is not None:
            turns[f"  {against}, {place}"] = partial(_child, name, place, count, against)
    if java:
        turns["Kafka's TopologyTestDriver"] = partial(_java, name, count)
    figures: dict[str, list[float]] = {label: [] for label in turns}
    for _ in range(rounds):
        for label, turn in turns.items():
            figures[label].append(turn())
    ours = statistics.median(figures["barnabas, driver"])
    print(f"{name} ({count} records, median of {rounds} rounds in turn)")
    for label, seconds in figures.items():
        median = statistics.median(seconds)
        print(f"  {label:<44} {median * 1e6:8.2f} us {1 / median:12,.0f} /s {median / ours:7.2f} x ours", flush=True)


def main() -> None:
    """Measure and print; with `--case` one measurement in this process, in seconds a record."""
    taken = parser(__doc__)
    taken.add_argument("--records", type=int, default=100_000, help="records a measurement")
    taken.add_argument("--rounds", type=int, default=3, help="measurements of each")
    taken.add_argument("--against", help="the src directory of another clone")
    taken.add_argument("--java", type=int, default=1, help="0 leaves Kafka's driver out")
    taken.add_argument("--case", choices=CASES, help="one measurement in this process")
    taken.add_argument("--place", choices=PLACES, default="task", help="where")
    given = taken.parse_args()
    if given.case is not None:
        print(PLACES[given.place](given.case, given.records))
        return
    for name in CASES:
        race(name, given.records, given.rounds, given.against, bool(given.java))
    print("a test of ten records (wall clock of the first, median of 100)")
    for name in CASES:
        tests = [a_test_of_ten_records(name) for _ in range(100)]
        print(f"  {name:<44} {tests[0] * 1e3:8.2f} ms {statistics.median(tests) * 1e3:8.2f} ms")


if __name__ == "__main__":
    main()
