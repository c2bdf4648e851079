"""What a task's process tells the driver beside its report: what it has counted, and how a restoration goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.streams.state.time_ordered_buffer import TimeOrderedChangeBuffer
from barnabas.streams.topology.sensors import SensorReading

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.streams.state.store import StateStore
    from barnabas.streams.state_restore_listener import StateRestoreListener
    from barnabas.streams.topology.nodes import ProcessorTopology


class Age(NamedTuple):
    """How old records were when they came by, in milliseconds: the sum, the least and the greatest; of so many."""

    records: int
    total: float
    least: float
    greatest: float


class StoreSize(NamedTuple):
    """How many entries a store has, about; records and bytes of a suppression buffer, else None.

    `scope` is what the tag of its metrics begins with.
    """

    scope: str
    entries: int | None
    buffered: tuple[int, int] | None = None


class TaskMeasures(NamedTuple):
    """What a task has counted in one batch; `seconds` is how long it took.

    `clock_ms` is how often punctuators by the wall clock want it to run. `consumed` and `produced` are records and
    bytes by node and topic, `ages` those of the records by source node and sink. `sensors` are the engine's, at the
    levels DEBUG and TRACE, and those of processors.
    """

    task: str
    seconds: float
    dropped: int
    restored: int
    consumed: dict[tuple[str, str], tuple[int, int]]
    produced: dict[tuple[str, str], tuple[int, int]]
    ages: dict[str, Age]
    stores: dict[str, StoreSize]
    disk_bytes: int
    clock_ms: int | None = None
    sensors: tuple[SensorReading, ...] = ()

    @property
    def processed(self) -> int:
        """How many records it has read."""
        return sum(records for records, _ in self.consumed.values())


class TaskAnswer(NamedTuple):
    """What comes of a request."""

    report: TaskReport
    measures: TaskMeasures | None


class RestoreEvent(NamedTuple):
    """A step of a restoration: `what` is start, batch, end or suspended, as Kafka's StateRestoreListener is told.

    `start` and `end` are offsets, of the whole or of what was restored up to now; `restored` are records: of this
    batch, or of all at the end.
    """

    what: str
    topic: str
    partition: int
    store: str
    start: int
    end: int
    restored: int

    def tell(self, listener: StateRestoreListener) -> None:
        """Call the listener's method for it."""
        partition = TopicPartition(self.topic, self.partition)
        if self.what == "start":
            listener.on_restore_start(partition, self.store, self.start, self.end)
        elif self.what == "batch":
            listener.on_batch_restored(partition, self.store, self.end, self.restored)
        else:
            ended = listener.on_restore_end if self.what == "end" else listener.on_restore_suspended
            ended(partition, self.store, self.restored)


class BatchCounts:
    """Counts what passes through a task in a batch."""

    def __init__(self, topology: ProcessorTopology, now_ms: int) -> None:
        self._sources = topology.source_by_topic
        self._sinks = topology.sink_topics
        self._now_ms = now_ms
        self.consumed: dict[tuple[str, str], tuple[int, int]] = {}
        self.produced: dict[tuple[str, str], tuple[int, int]] = {}
        self.ages: dict[str, Age] = {}

    def read(self, rows: pa.RecordBatch) -> None:
        """Count the source's rows."""
        for node, topic, chosen in _by_topic(self._sources, rows):
            _count(self.consumed, (node, topic), chosen)
            self._measure_age(node, chosen)

    def wrote(self, rows: pa.RecordBatch, sign: int = 1) -> None:
        """Count rows for the sink, or with -1 take them back; those of changelogs are none of a sink's."""
        for node, topic, chosen in _by_topic(self._sinks, rows):
            _count(self.produced, (node, topic), chosen, sign)
            if sign > 0:
                self._measure_age(node, chosen)

    def _measure_age(self, node: str, rows: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = rows.column("timestamp")
        # As floats: the sum of a million times in microseconds is no 64-bit number.
        times = column.cast(pa.int64()).cast(pa.float64())
        if pa.types.is_timestamp(column.type):  # the source's; those for the sink are milliseconds
            times = pc.divide(times, 1000.0)
        found, total = pc.min_max(times), pc.sum(times).as_py()
        least, greatest = (self._now_ms - found[name].as_py() for name in ("max", "min"))
        before = self.ages.get(node, Age(0, 0.0, least, greatest))
        age = before.total + self._now_ms * len(times) - total
        whole = min(before.least, least), max(before.greatest, greatest)
        self.ages[node] = Age(before.records + len(times), age, *whole)


def _by_topic(nodes: dict[str, str], rows: pa.RecordBatch) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """Yield the rows of each topic that one of the nodes has."""
    import pyarrow.compute as pc

    topics = rows.column("topic")
    names = pc.unique(topics).to_pylist()
    for topic in names:
        if topic in nodes:
            yield nodes[topic], topic, rows if len(names) == 1 else rows.filter(pc.equal(topics, topic))


def _count(
    counts: dict[tuple[str, str], tuple[int, int]], key: tuple[str, str], rows: pa.RecordBatch, sign: int = 1
) -> None:
    import pyarrow.compute as pc

    size = sum(pc.sum(pc.binary_length(rows.column(name))).as_py() or 0 for name in ("key", "value"))
    records, before = counts.get(key, (0, 0))
    counts[key] = records + sign * rows.num_rows, before + sign * size


def size_of(name: str, store: StateStore, scope: str, on_disk: Counter[str]) -> StoreSize:
    """Return how large a store is; `on_disk` are the entries of the maps on disk, by name."""
    buffered = None
    if isinstance(store, TimeOrderedChangeBuffer):
        buffered = store.num_records, store.buffer_size
    if store.persistent:
        return StoreSize(scope, entries_of(name, on_disk), buffered)
    count = getattr(store, "approximate_num_entries", None)
    return StoreSize(scope, None if count is None else int(count()), buffered)


def entries_of(store: str, maps: Counter[str]) -> int:
    """Return the entries of a store on disk: of its map, of its segments, of what is latest."""

    def is_its(name: str) -> bool:
        rest = name.removeprefix(store)
        return name.startswith(store) and (
            rest in ("", "-latest") or (rest[0] == "." and rest[1:].lstrip("-").isdigit())
        )

    return sum(count for name, count in maps.items() if is_its(name))
