"""A year of real flights through a barnabas broker into a Spark job, and what came out: `./run demo`."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import check
import job
import show
import streams_job
from data import Tables, closing_events, load, malformed_events
from produce import Sent, Topics, send_year
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from barnabas import AdminClient, Broker, Consumer, NewTopic, TopicPartition

OUTPUT = Path("demo-output")
PARTITIONS = {"flights": 6, "weather": 3, "delays": 3, "dead_letters": 1, "delays_by_streams": 3}


class Run(NamedTuple):
    """What one run of the pipeline sent, what Spark did with it, and what was read back."""

    sent: Sent
    sending_seconds: float
    seconds: float
    rows_read: int
    batches: int
    late_rows: int
    records: dict[str, int]
    delays: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]
    by_streams: list[dict[str, Any]]
    streams_seconds: float


class Meter:
    """Progress on the screen: bars on a terminal, a line every few seconds elsewhere."""

    def __init__(self, console: Console, total: int) -> None:
        """`total`: records that will be sent, and rows that will be read."""
        self._console = console
        self._next_line = time.monotonic() + 5
        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[doing]}"), console=console,
        )  # fmt: skip
        self._sent = self._bars.add_task("sent to the broker", total=total, doing="")
        self._read = self._bars.add_task("read by Spark     ", total=total, doing="")

    def __enter__(self) -> Meter:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def show(self, sent: int, read: int, doing: str) -> None:
        """Say how far things are, and what Spark is doing."""
        self._bars.update(self._sent, completed=sent)
        self._bars.update(self._read, completed=read, doing=doing)
        if not self._console.is_terminal and time.monotonic() >= self._next_line:
            self._console.print(f"  {sent:,} sent, {read:,} read by Spark, {doing}")
            self._next_line = time.monotonic() + 5


def work_under_way(spark: SparkSession) -> str:
    """How many of Spark's tasks of this moment are done; its rows are counted only when a micro-batch ends."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    done, total = (sum(getattr(stage, name) for stage in stages if stage) for name in ("numCompletedTasks", "numTasks"))
    return f"{done} of {total} tasks done" if total else "planning"


@contextmanager
def interrupts_deferred(console: Console) -> Iterator[None]:
    """Hold a Ctrl-C back while a library works that would turn it into an error of its own, or leave things behind."""
    pressed: list[int] = []

    def remember(signal_number: int, _frame: object) -> None:
        pressed.append(signal_number)
        console.print("stopping in a moment")

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def create_topics(servers: str, topics: Topics) -> None:
    """Create the demo's topics with their partitions; they keep everything, for the events are years old."""
    forever = {"retention.ms": "-1"}
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [
                NewTopic(name, num_partitions=PARTITIONS[role], configs=forever)
                for role, name in topics._asdict().items()
            ]
        )


def run_on_spark(servers: str, tables: Tables, topics: Topics, folder: Path, console: Console) -> Run:
    """Run the pipeline on a Spark of its own."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it would print a traceback for every call that Ctrl-C ends
    spark: SparkSession | None = None
    try:
        with interrupts_deferred(console):  # a Java that is still starting has no owner yet
            spark = job.session(folder)
        return run_pipeline(spark, servers, tables, topics, folder, console)
    finally:
        if spark is not None:
            spark.stop()


def run_pipeline(
    spark: SparkSession,
    servers: str,
    tables: Tables,
    topics: Topics,
    folder: Path,
    console: Console,
    on_sent: Callable[[int], None] = lambda count: None,
) -> Run:
    """Send the year while Spark works on it; returns when every window is out and read back.

    `on_sent` hears, in the sending thread, how many records are acknowledged so far.
    """
    queries: list[StreamingQuery] = []
    sent = [0]

    def count(done: int) -> None:
        sent[0] = done
        on_sent(done)

    with ThreadPoolExecutor(2) as threads:
        try:
            queries.append(job.start_delays(spark, servers, topics, tables, folder))
            queries.append(job.start_dead_letters(spark, servers, topics, folder))
            began = time.monotonic()
            events = (tables.flights, tables.weather, malformed_events("", 0), closing_events("", ""))
            total = sum(map(len, events))
            with Meter(console, total) as meter:

                def show_progress() -> None:
                    meter.show(sent[0], rows_read(queries[0]), work_under_way(spark))

                sending = threads.submit(send_year, tables, topics, servers, count)
                wait_for(sending, queries, show_progress)
                sending_seconds = time.monotonic() - began
                for query in queries:
                    wait_for(threads.submit(query.processAllAvailable), queries, show_progress)
            seconds = time.monotonic() - began
        finally:
            for query in queries:
                query.stop()
    began = time.monotonic()
    console.print("the same once more, by the DSL of Kafka Streams")
    by_streams = streams_job.run(spark, servers, tables, topics, folder)
    return Run(
        sent=sending.result(),
        sending_seconds=sending_seconds,
        seconds=seconds,
        rows_read=rows_read(queries[0]),
        batches=len(queries[0].recentProgress),
        late_rows=late_rows(queries),
        records=records_in(servers, topics),
        delays=read_back(servers, topics.delays, delay_of),
        dead_letters=read_back(servers, topics.dead_letters, dead_letter_of),
        by_streams=by_streams,
        streams_seconds=time.monotonic() - began,
    )


def wait_for(future: Future[Any], queries: list[StreamingQuery], show_progress: Callable[[], None]) -> None:
    """Wait with progress; raises what the work raised, or what ended a query before its time."""
    while not future.done():
        for query in queries:
            error = query.exception()
            if error is not None:
                raise error
        show_progress()
        time.sleep(0.2)
    future.result()
    show_progress()


def rows_read(query: StreamingQuery) -> int:
    """Rows that a query has taken in so far."""
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


def late_rows(queries: list[StreamingQuery]) -> int:
    """Rows that came too late for their window and were dropped."""
    return sum(
        int(operator["numRowsDroppedByWatermark"])
        for query in queries
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def records_in(servers: str, topics: Topics) -> dict[str, int]:
    """How many records each topic holds."""
    found = {}
    with Consumer(bootstrap_servers=servers) as consumer:
        for topic in topics:
            partitions = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
            found[topic] = sum(consumer.end_offsets(partitions).values())
    return found


def read_back(servers: str, topic: str, parse: Callable[[Any], dict[str, Any]]) -> list[dict[str, Any]]:
    """Read a whole topic with the consumer."""
    found: list[dict[str, Any]] = []
    with Consumer(topic, bootstrap_servers=servers, group_id="flights-demo", auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
        total = sum(consumer.end_offsets(partitions).values())
        while len(found) < total:
            found += [parse(record) for record in consumer.poll(timeout=1.0)]
    return found


def delay_of(record: Any) -> dict[str, Any]:
    """One window, as the job wrote it."""
    found: dict[str, Any] = json.loads(record.value)
    return found


def dead_letter_of(record: Any) -> dict[str, Any]:
    """One event that could not be used, with the headers that say why and from where."""
    headers = {name: value.decode() for name, value in record.headers}
    return {"key": record.key, "value": record.value, **headers}


def verify(run: Run, tables: Tables, console: Console) -> list[str]:
    """Say what was checked and what is wrong; an empty list when all is right."""
    outcome = check.compare(run.delays, tables)
    wrong = list(outcome.differences)
    injected = [(event.key, event.value, reason) for event, reason in malformed_events("", at_ms=0)]
    letters = [(letter["key"], letter["value"], letter["reason"]) for letter in run.dead_letters]
    if sorted(map(repr, letters)) != sorted(map(repr, injected)):
        wrong.append(f"dead letters: {letters}, not {injected}")
    if run.late_rows:
        wrong.append(f"{run.late_rows} rows came too late")
    wrong += [f"by the DSL of Kafka Streams: {each}" for each in check.compare(run.by_streams, tables).differences]
    totals = outcome.totals
    console.print(
        f"[bold]{outcome.windows:,}[/] windows: {totals['scheduled']:,} flights, {totals['departures']:,} departed, "
        f"{totals['cancellations']:,} cancelled, {totals['delay_minutes']:,} minutes of delay, "
        f"{totals['unknown_destinations']:,} to airports the table lacks, {totals['with_weather']:,} with weather"
    )
    console.print(f"late rows: {run.late_rows}; malformed events in the dead-letter topic: {len(run.dead_letters)}")
    for letter in run.dead_letters:
        console.print(f"  {letter['topic-partition']} offset {letter['offset']}: {letter['reason']}", highlight=False)
    return wrong


def report(run: Run, tables: Tables, console: Console) -> bool:
    """Print the outcome and save the picture; True when every figure agrees with the data frames."""
    frame = show.frame_of(run.delays)
    show.worst_hours(frame, console)
    picture = OUTPUT / "year.png"
    show.draw_year(frame, picture)
    records = sum(run.sent)
    console.print(
        f"{records:,} records sent in {run.sending_seconds:.1f} s; Spark read {run.rows_read:,} rows in "
        f"{run.batches} micro-batches and wrote {len(run.delays):,} windows; all within {run.seconds:.1f} s "
        f"({records / run.seconds:,.0f} records/s end to end)"
    )
    console.print(
        f"the DSL of Kafka Streams: {len(run.by_streams):,} airports and hours within {run.streams_seconds:.1f} s"
    )
    where = ", ".join(f"[bold]{topic}[/] {count:,}" for topic, count in run.records.items())
    console.print(f"records in the topics: {where}")
    wrong = verify(run, tables, console)
    for sentence in wrong:
        console.print(f"[red]wrong:[/] {sentence}", highlight=False)
    if not wrong:
        console.print("[green]every count and sum of both jobs equals the same computation on the data frames[/]")
    console.print(f"the year as a picture: {picture}")
    return not wrong


def explore(broker: Broker, data: Path, topics: Topics, console: Console) -> None:
    """Leave the broker running and say how to look around; returns on Ctrl-C."""
    at = f"-b {broker.bootstrap_servers}"
    console.print(
        f"\nThe broker still runs at {broker.bootstrap_servers}, its data is in {data}.\n"
        f"Look around in another terminal:\n"
        f"  ./run barnabas topic list {at}\n"
        f"  ./run barnabas consume {topics.delays} -n 5 {at}\n"
        f"  ./run barnabas consume {topics.dead_letters} -n 6 -o json {at}\n"
        f"  ./run barnabas consume {topics.delays_by_streams} -n 5 {at}\n"
        f"  ./run barnabas group list {at}\n"
        f"Ctrl-C stops it; ./run barnabas up --data {data} starts it again on the same data.",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    try:
        signal.pause()
    except KeyboardInterrupt:
        console.print("stopped")


def main() -> int:
    """Run the demo; 0 when everything agrees, 1 when a figure is wrong, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the broker and its data for exploring")
    parser.add_argument("--days", type=int, help="only the first so many days of the year")
    arguments = parser.parse_args()
    console, topics = Console(), Topics()
    if not console.is_terminal:
        console.width = 120
    folder = Path(tempfile.mkdtemp(prefix="barnabas-demo-"))
    data = OUTPUT.resolve() / "broker" if arguments.keep else folder / "broker"
    shutil.rmtree(data, ignore_errors=True)
    try:
        console.print("reading a year of flights")
        with interrupts_deferred(console):
            tables = load(arguments.days)
        with Broker(data_dir=data) as broker:
            console.print(f"broker at {broker.bootstrap_servers} (process {broker.pid})")
            create_topics(broker.bootstrap_servers, topics)
            console.print("starting Spark")
            run = run_on_spark(broker.bootstrap_servers, tables, topics, folder, console)
            good = report(run, tables, console)
            if arguments.keep:
                explore(broker, data, topics, console)
        return 0 if good else 1
    except KeyboardInterrupt:
        console.print(
            "stopped by Ctrl-C; the broker and Spark are down" + (f", data in {data}" if arguments.keep else "")
        )
        return 130
    except Exception:
        if (folder / "spark.log").exists():
            OUTPUT.mkdir(parents=True, exist_ok=True)
            console.print(f"what Spark has said is in {shutil.copy(folder / 'spark.log', OUTPUT / 'spark.log')}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
