"""A task of the engine as a process holds it: its stores, and how they get to the state that counts."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypedDict

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import TaskState
from barnabas.streams.engine.measured_store import scope_of
from barnabas.streams.engine.measured_task import MeasuredTask, make_task
from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark.state_directory import Kept, KeptState
from barnabas.streams.spark.state_protocol import HeldTask
from barnabas.streams.spark.task_measures import RestoreEvent, StoreSize, size_of
from barnabas.streams.state.store import StateStore
from barnabas.streams.store_changelog_reader import ChangelogReader
from barnabas.streams.topology.dsl_store_suppliers import resolved
from barnabas.streams.topology.nodes import ProcessorTopology
from barnabas.streams.topology.processor_api import TaskId
from barnabas.streams.topology.stores import StoreBuilder

LOGGER = logging.getLogger("barnabas.streams")

#: Milliseconds from one time that the state is kept to the next: each waits for the disk. What was not kept is read
#: from the changelogs again, so that costs little.
KEEP_EVERY_MS = 1000

#: Milliseconds from one time that the stores' sizes are asked for to the next.
_SIZE_EVERY_MS = 1000

#: Seconds of restoring after which what is restored so far is kept, so that another attempt goes on from there.
_KEEP_RESTORED_EVERY = 10.0

#: How old what was kept may be if the changelog has gone on: half of a topic's default delete.retention.ms. Compaction
#: may have removed deletions that it does not know of.
_OLDEST_MS = 12 * 60 * 60 * 1000


class BatchPlan(TypedDict):
    """What the source tells a task of a batch: `PlannedTask.to_json`."""

    task: str
    now_ms: int
    ranges: list[tuple[str, int, int, int]]
    shared: list[tuple[str, int, int, int]]


class TaskPlan(NamedTuple):
    """What a task is made of, and the batch for which."""

    topology: ProcessorTopology
    id: TaskId
    settings: TaskSettings
    batch: BatchPlan


class EngineTask(HeldTask):
    """A task, when it is whole. `folder` is where this machine keeps the application's state."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.task: Task | None = None
        self.kept: KeptState | None = None
        self._folder = folder
        self._topics: dict[str, str] = {}
        self._topic_ids: dict[str, str] = {}
        self._layouts: dict[str, str] = {}
        self._scopes: dict[str, str] = {}
        self._positions: dict[str, int] = {}
        self._kept_ms = 0
        self._restored = 0
        self._sized_ms = 0
        self._sizes: tuple[dict[str, StoreSize], int] = ({}, 0)

    def restore(
        self, plan: TaskPlan, reader: ChangelogReader, state: TaskState | None,
        tell: Callable[[RestoreEvent], None] = lambda event: None,
    ) -> None:  # fmt: skip
        """See `state_protocol.Restore`; `tell` hears how it goes on."""
        self._close_task()
        topics = {
            name: topic
            for name, topic in plan.topology.store_to_changelog_topic.items()
            if name in plan.topology.state_stores
        }
        self._topics = topics
        ends = self._ends(plan, reader, state)
        self._topic_ids = reader.topic_ids(topics.values()) if topics else {}
        kept = self._back(plan, reader, ends)
        backend = None if self.kept is None else self.kept.backend
        task = make_task(plan.topology, plan.id, plan.settings._replace(backend=backend), plan.batch["now_ms"])
        for name, times in kept.times.items():
            if name in task.stores and task.stores[name].persistent:
                task.stores[name].restore_times(times)
        self._positions = {}
        for name, topic in topics.items():
            persistent = task.stores[name].persistent
            start = kept.positions.get(topic) if persistent else None
            if start is not None:
                self._positions[topic] = start
        self.task = task
        self._scopes = {name: scope_of(builder) for name, builder in _builders(plan)}
        for name, topic in topics.items():
            partition = TopicPartition(topic, plan.id.partition)
            restoring = _Restoring(name, partition, self._positions.get(topic), ends[topic], tell)
            began = time.perf_counter_ns()
            self._catch_up(task.stores[name], reader, restoring)
            if isinstance(task, MeasuredTask):
                task.record_restoration(name, time.perf_counter_ns() - began)
        if state is not None:
            task.restore_metadata(json.loads(state.note)["metadata"].encode())
        self._kept_ms = 0

    def _ends(self, plan: TaskPlan, reader: ChangelogReader, state: TaskState | None) -> dict[str, int]:
        """Return up to where each changelog is to be read."""
        number = plan.id.partition
        known = _known_ends(plan.batch, state, number)
        others = [TopicPartition(topic, number) for topic in self._topics.values() if topic not in known]
        stable = reader.stable_ends(others) if others else {}
        return {**{partition.topic: end for partition, end in stable.items()}, **known}

    def _back(self, plan: TaskPlan, reader: ChangelogReader, ends: dict[str, int]) -> Kept:
        """Go back to what is kept, or to nothing where that does not fit."""
        nothing = Kept({}, {}, {}, 0)
        if not plan.topology.state_stores:
            return nothing
        if find_spec("lmdb") is None:
            LOGGER.warning("task %s keeps its state in memory: pip install 'barnabas[streams]' for disk", plan.id)
            return nothing
        if self.kept is None:
            self.kept = KeptState(self._folder, str(plan.id))
        found = self.kept.back()
        self._layouts = _layouts(plan)
        if found is None:
            self.kept.clear()
            return nothing
        if problem := self._why_not(found, plan, reader, ends):
            LOGGER.warning("task %s: the state in %s is not used: %s", plan.id, self.kept.directory, problem)
            self.kept.clear()
            return nothing
        return found

    def _why_not(self, found: Kept, plan: TaskPlan, reader: ChangelogReader, ends: dict[str, int]) -> str:
        if found.layouts and (other := [name for name, at in found.layouts.items() if self._layouts.get(name) != at]):
            return f"another topology has kept its stores {', '.join(sorted(other))} there"
        partitions = {topic: TopicPartition(topic, plan.id.partition) for topic in found.positions if topic in ends}
        starts = reader.starts(partitions.values()) if partitions else {}
        for topic, partition in partitions.items():
            position, end = found.positions[topic], ends[topic]
            if found.topic_ids.get(topic) != self._topic_ids[topic]:
                return f"{topic} was deleted and created again"
            if position > end:
                return f"it has {partition} up to offset {position}, which now ends at {end}"
            if starts[partition] > position:
                return f"it has {partition} up to offset {position}, which now begins at {starts[partition]}"
            if position < end and plan.batch["now_ms"] - found.at_ms > _OLDEST_MS:
                return f"it is older than {_OLDEST_MS // 3_600_000} h"
        return ""

    def _catch_up(self, store: StateStore, reader: ChangelogReader, restoring: _Restoring) -> None:
        kept = time.monotonic()
        topic = restoring.partition.topic

        def restored(position: int, records: int) -> None:
            nonlocal kept
            self._positions[topic] = position
            self._restored += records
            restoring.came_to(position, records)
            if store.persistent and time.monotonic() - kept > _KEEP_RESTORED_EVERY:
                kept = time.monotonic()
                self._keep(0)

        with restoring:
            reader.restore(store, restoring.partition, restoring.end, restoring.start, restored)
        self._positions[topic] = restoring.end

    def take_restored(self) -> int:
        """Return how many records were restored since this was asked last."""
        found, self._restored = self._restored, 0
        return found

    def sizes(self, now_ms: int) -> tuple[dict[str, StoreSize], int]:
        """Return how large the stores are, and the bytes on disk; as they were a second ago at most."""
        if self.task is not None and now_ms - self._sized_ms >= _SIZE_EVERY_MS:
            self._sized_ms = now_ms
            maps = Counter[str]() if self.kept is None else self.kept.backend.entries()
            stores = {name: size_of(name, store, self._scopes[name], maps) for name, store in self.task.stores.items()}
            self._sizes = stores, 0 if self.kept is None else self.kept.backend.size()
        return self._sizes

    def keep(self, plan: BatchPlan, state: TaskState | None) -> None:
        """See `state_protocol.Keep`; not each time, and only what is on disk."""
        assert self.task is not None, "it was restored"
        self._positions |= _known_ends(plan, state, self.task.id.partition, self._topics.values())
        if plan["now_ms"] - self._kept_ms >= KEEP_EVERY_MS:
            self._keep(plan["now_ms"])

    def keep_at_end(self, state: TaskState, now_ms: int) -> None:
        """See `state_protocol.end_task`: the stores stand after this state, and no batch follows that would tell."""
        assert self.task is not None, "it was restored"
        number, topics = self.task.id.partition, set(self._topics.values())
        read = {topic: ends[str(number)] for topic, ends in json.loads(state.note)["positions"].items()}
        written = {topic: end for topic, end in _written_ends(state, number).items() if topic in topics}
        self._positions |= {topic: end for topic, end in read.items() if topic in topics} | written
        self._keep(now_ms)

    def _keep(self, now_ms: int) -> None:
        if self.kept is None or self.task is None:
            return
        stores = {name: store for name, store in self.task.stores.items() if store.persistent}
        positions = {self._topics[name]: self._positions[self._topics[name]] for name in stores if self._has(name)}
        times = {name: times for name, store in stores.items() if (times := store.times())}
        self.kept.keep(Kept(self._topic_ids, positions, times, now_ms, self._layouts))
        self._kept_ms = now_ms

    def _has(self, store: str) -> bool:
        return store in self._topics and self._topics[store] in self._positions

    def close(self) -> None:
        """Close processors and stores, and let others have the directory. What was not kept is forgotten."""
        self.note = None
        self._close_task()
        if self.kept is not None:
            self.kept.close()
            self.kept = None

    def _close_task(self) -> None:
        task, self.task = self.task, None
        if task is not None:
            with suppress(StreamsError):
                task.close()


def _layouts(plan: TaskPlan) -> dict[str, str]:
    """Return how the bytes of each store on disk lie there: what decides on its keys and its segments."""
    found = {}
    for name, store in _builders(plan):
        if store.persistent:
            interval = store.segment_interval_ms or store.retention_ms or store.history_retention_ms
            parts = (store.kind.value, store.headers, store.time_ordered, store.indexed, interval)
            found[name] = " ".join(map(str, parts))
    return found


def _builders(plan: TaskPlan) -> Iterator[tuple[str, StoreBuilder]]:
    """Yield the stores as they are, the settings taken into account."""
    config = plan.settings.config
    for name, builder in plan.topology.state_stores.items():
        yield name, resolved(builder, config.dsl_store_suppliers, with_headers=config.stores_headers)


class _Restoring:
    """A changelog on its way into a store: tells how far it is, and whether it came to its end."""

    def __init__(
        self, store: str, partition: TopicPartition, start: int | None, end: int, tell: Callable[[RestoreEvent], None]
    ) -> None:
        self.partition, self.start, self.end = partition, start, end
        self._store, self._tell = store, tell
        self._position, self._records = start or 0, 0

    def came_to(self, position: int, records: int) -> None:
        """Tell of a piece of so many records that ends here."""
        self._event("batch", self._position, position, records)
        self._position = position
        self._records += records

    def _event(self, what: str, start: int, end: int, records: int) -> None:
        self._tell(RestoreEvent(what, *self.partition, self._store, start, end, records))

    def __enter__(self) -> None:
        self._event("start", self.start or 0, self.end, 0)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._event("end" if kind is None else "suspended", self.start or 0, self._position, self._records)


def _written_ends(state: TaskState, number: int) -> dict[str, int]:
    """Return by topic where a partition goes on after what the task has written to it."""
    return {topic: ends[str(number)] + 1 for topic, ends in state.ends.items() if str(number) in ends}


def _known_ends(plan: BatchPlan, state: TaskState | None, number: int, topics: object = None) -> dict[str, int]:
    """Return the ends that plan and decision tell: a task's own source that serves as changelog, and what it wrote."""
    found = {} if state is None else _written_ends(state, number)
    return found | {topic: start for topic, partition, start, _ in plan["ranges"] if partition == number}
