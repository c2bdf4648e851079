"""What a machine keeps of a task: good for the next process, whatever happened in between, or not used at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("lmdb")

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import TaskState
from barnabas.streams import Materialized, Serdes, StreamsBuilder, Suppressed, TimeWindows
from barnabas.streams.config import StreamsConfig
from barnabas.streams.engine.record import InputRecord
from barnabas.streams.engine.task import TaskSettings
from barnabas.streams.errors import ProcessorStateError, StreamsError
from barnabas.streams.spark import query_plan as plan
from barnabas.streams.spark.restorable_task import BatchPlan, EngineTask, TaskPlan
from barnabas.streams.spark.state_directory import Kept, KeptState, clean, remove_all
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.disk import DiskBackend
from barnabas.streams.state.store import StateStore
from barnabas.streams.topology.nodes import ProcessorTopology
from barnabas.streams.topology.processor_api import TaskId

CONFIG = StreamsConfig({
    "application.id": "app", "bootstrap.servers": "nowhere:1", "default.key.serde": "string",
    "default.value.serde": "string", "statestore.cache.max.bytes": 0,
})  # fmt: skip
CHANGELOG = "app-counts-changelog"
HOUR = 3_600_000


class Changelogs:
    """Topics of one partition in memory, and who reads them; knows how many records were read."""

    def __init__(self) -> None:
        self.records: dict[str, list[ChangelogRecord]] = {}
        self.ids: dict[str, str] = {}
        self.begin = 0
        self.read = 0

    def write(self, topic: str, record: ChangelogRecord) -> int:
        self.records.setdefault(topic, []).append(record)
        return len(self.records[topic]) - 1

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {topic: self.ids.get(topic, "first") for topic in topics}

    def stable_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: len(self.records.get(each.topic, ())) for each in partitions}

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.begin)

    def restore(
        self,
        store: StateStore,
        partition: TopicPartition,
        end: int,
        start: int | None,
        restored: Callable[[int, int], None],
    ) -> None:
        found = self.records.get(partition.topic, [])[max(start or 0, self.begin) : end]
        self.read += len(found)
        store.restore(found)
        restored(end, end - (start or 0))


class Application:
    """An application of one task, batch after batch; its processes die with `EngineTask.close`, which keeps nothing."""

    def __init__(
        self, folder: Path, builder: StreamsBuilder | None = None, topology: ProcessorTopology | None = None
    ) -> None:
        self.logs, self.folder = Changelogs(), folder
        (planned,) = plan.planned((builder or counting()).build(), CONFIG).subtopologies.values()
        self.topology = topology or planned
        self.state: TaskState | None = None
        self.offset, self.now_ms = 0, 0
        self.processes: list[EngineTask] = []

    def process(self, folder: Path | None = None) -> EngineTask:
        """Return a new process, on this machine or another one."""
        self.processes.append(EngineTask(folder or self.folder))
        return self.processes[-1]

    def compute(self, held: EngineTask, *values: str, restore: bool = False) -> list[tuple[Any, Any]]:
        """Take the steps of a batch, up to rows that nobody has decided on; returns the output."""
        self.now_ms += 60_000
        batch: BatchPlan = {"task": "0_0", "now_ms": self.now_ms, "ranges": [("in", 0, 0, 0)], "shared": []}
        if restore or held.task is None:
            task = TaskPlan(self.topology, TaskId(0, 0), TaskSettings(CONFIG), batch)
            held.restore(task, self.logs, self.state)  # type: ignore[arg-type]  # it has what is asked
        held.keep(batch, self.state)
        assert held.task is not None
        records = [
            InputRecord("in", 0, self.offset + at, self.now_ms, value.encode(), value.encode(), [])
            for at, value in enumerate(values)
        ]
        self.sent = held.task.process(records, self.now_ms)
        positions = {"in": {"0": self.offset + len(values)}}
        metadata = held.task.metadata().decode()
        self.note = json.dumps({"id": str(self.now_ms), "metadata": metadata, "positions": positions})
        return [(each.key, each.value) for each in self.sent if each.topic == "out"]

    def decide(self) -> None:
        """Write what was computed last, and decide on it."""
        ends: dict[str, dict[str, int]] = {}
        for each in self.sent:
            if each.topic.endswith("-changelog"):
                record = ChangelogRecord(each.key or b"", each.value, each.timestamp, list(each.headers))
                ends[each.topic] = {"0": self.logs.write(each.topic, record)}
        self.state = TaskState("0_0", self.note, ends).after(self.state)

    def batch(self, held: EngineTask, *values: str) -> list[tuple[Any, Any]]:
        found = self.compute(held, *values)
        self.decide()
        return found


def counting() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out", value=Serdes.long())
    return builder


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    found = Application(tmp_path)
    yield found
    for process in found.processes:
        process.close()


def count(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_another_process_reads_what_came_after_what_is_kept(app: Application) -> None:
    held = app.process()
    for _ in range(3):
        app.batch(held, "a", "b")
    held.close()  # it dies: the third batch was decided, and not kept yet

    found = app.batch(app.process(), "a")

    assert found == [(b"a", count(4))]
    assert app.logs.read == 2, "of six"


def test_what_an_application_that_is_closed_keeps_is_not_read_again(app: Application) -> None:
    held = app.process()
    for _ in range(3):
        app.batch(held, "a", "b")
    assert app.state is not None
    held.keep_at_end(app.state, app.now_ms)
    held.close()

    found = app.batch(app.process(), "a")

    assert found == [(b"a", count(4))]
    assert app.logs.read == 0


def test_a_table_that_is_kept_at_the_end_has_its_own_topic_up_to_what_was_read(tmp_path: Path) -> None:
    config = StreamsConfig({**CONFIG.values, "topology.optimization": "all"})
    builder = StreamsBuilder()
    builder.table("in", store="names").to_stream().to("out")
    (topology,) = plan.planned(builder.build(config.values), config).subtopologies.values()
    assert topology.store_to_changelog_topic == {"names": "in"}
    app = Application(tmp_path, topology=topology)
    held = app.process()
    app.batch(held, "a", "b")
    assert app.state is not None
    held.keep_at_end(app.state, app.now_ms)
    held.close()

    state = KeptState(tmp_path, "0_0")
    kept = state.back()
    state.close()
    assert kept is not None
    assert kept.positions == {"in": 2}


def test_a_batch_that_is_computed_and_not_decided_is_forgotten(app: Application) -> None:
    held = app.process()
    app.batch(held, "a")
    app.compute(held, "a", "x", "y")  # its rows are lost

    assert app.compute(held, "a", "x", restore=True) == [(b"a", count(2)), (b"x", count(1))]


def test_a_process_that_dies_before_a_decision_leaves_nothing_of_the_batch(app: Application) -> None:
    held = app.process()
    app.batch(held, "a")
    app.compute(held, "a", "x")
    held.close()

    assert app.batch(app.process(), "a", "x") == [(b"a", count(2)), (b"x", count(1))]


def test_a_machine_that_comes_back_catches_up_with_the_others(app: Application, tmp_path: Path) -> None:
    here, there = app.process(tmp_path / "here"), app.process(tmp_path / "there")
    app.batch(here, "a", "b", "c")
    app.batch(here, "a")
    here.close()
    for _ in range(2):
        app.batch(there, "a")
    read = app.logs.read

    assert app.batch(app.process(tmp_path / "here"), "a") == [(b"a", count(5))]
    assert app.logs.read - read == 3, "all but the first batch"


@pytest.mark.parametrize("change", ["made anew", "cut at its end", "cut at its beginning", "too old"])
def test_what_no_longer_fits_to_the_changelog_is_not_used(
    app: Application, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    held = app.process()
    for _ in range(3):
        app.batch(held, "a", "b")
    held.close()
    records = app.logs.records[CHANGELOG]
    if change == "made anew":
        app.logs.ids[CHANGELOG] = "second"
        app.logs.records[CHANGELOG], app.state = [ChangelogRecord(b"a", count(70), 0, [])], None
    elif change == "cut at its end":
        del records[1:]
        app.state = None
    elif change == "cut at its beginning":
        app.logs.begin = 5
    else:
        app.now_ms += 13 * HOUR

    found = app.batch(app.process(), "a", "b")

    assert "is not used" in caplog.text
    assert (
        found
        == {
            "made anew": [(b"a", count(71)), (b"b", count(1))],
            "cut at its end": [(b"a", count(2)), (b"b", count(1))],
            "cut at its beginning": [(b"a", count(1)), (b"b", count(4))],
            "too old": [(b"a", count(4)), (b"b", count(4))],
        }[change]
    )


def test_a_state_that_has_missed_nothing_may_be_of_any_age(app: Application) -> None:
    held = app.process()
    app.batch(held, "a")
    app.compute(held)
    held.close()
    app.now_ms += 13 * HOUR

    assert app.batch(app.process(), "a") == [(b"a", count(2))]
    assert app.logs.read == 0


def test_windows_and_what_is_held_back_come_back_too(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    source = builder.stream("in", key=Serdes.string(), value=Serdes.string())
    windows = source.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(90_000))
    table = windows.count(Materialized.as_("counts")).suppress(Suppressed.until_window_closes())
    table.to_stream(lambda window, value: window.key).to("out", key=Serdes.string(), value=Serdes.long())

    def run(new_process: bool) -> list[Any]:
        app = Application(tmp_path / str(new_process), builder)
        held, found = app.process(), []
        for values in ("a", "ab", "b", "", "ba", "c", "a", "c"):
            found += app.batch(held, *values)
            if new_process:
                held.close()
                held = app.process()
        held.close()
        return found

    assert run(True) == run(False) != []


def test_two_processes_of_a_machine_have_a_directory_each(app: Application) -> None:
    first, second = app.process(), app.process()
    app.batch(first, "a")

    assert app.batch(second, "a") == [(b"a", count(2))]
    assert {each.name for each in app.folder.iterdir()} == {"0_0", "0_0.1"}


HOLDER = """
import sys, time
from pathlib import Path
from barnabas.streams.spark.state_directory import Kept, KeptState
state = KeptState(Path(sys.argv[1]), "0_0")
counts = state.backend.open("counts")
counts.put(b"a", b"kept")
state.keep(Kept({}, {"log": 1}, {}, 0))
counts.put(b"a", b"not kept")
for number in range(100_000):
    counts.put(b"%d" % number, b"x" * 100)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_process_that_is_killed_leaves_what_was_kept_and_the_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)

    state = KeptState(tmp_path, "0_0")

    assert (state.directory.name, state.back()) == ("0_0", Kept({}, {"log": 1}, {}, 0))
    assert list(state.backend.open("counts").range(None, None)) == [(b"a", b"kept")]
    state.close()


def test_a_file_that_cannot_be_read_is_made_anew(app: Application, caplog: pytest.LogCaptureFixture) -> None:
    held = app.process()
    app.batch(held, "a", "b")
    held.close()
    (app.folder / "0_0" / "data.mdb").write_bytes(b"rubbish" * 5000)

    assert app.batch(app.process(), "a") == [(b"a", count(2))]
    assert "made anew" in caplog.text


def test_a_folder_that_cannot_be_made_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ProcessorStateError, match=r"state\.dir"):
        KeptState(tmp_path / "file", "0_0")


def keep(folder: Path, task: str, position: int) -> None:
    state = KeptState(folder, task)
    state.keep(Kept({}, {"log": position}, {}, 0))
    state.close()


def test_directories_of_tasks_that_went_elsewhere_are_removed(tmp_path: Path) -> None:
    for task, position in [("0_0", 0), ("0_1", 99_000), ("0_2", 0), ("0_3", 0)]:
        keep(tmp_path, task, position)
    (tmp_path / "checkpoint").mkdir()
    in_use = KeptState(tmp_path, "0_2")
    old = time.time() - 3600
    for name in ("0_0", "0_1", "0_2"):
        os.utime(tmp_path / name / "data.mdb", (old, old))
    ends = {f"0_{number}": {"log": 100_000} for number in range(4)}

    removed = clean(tmp_path, ends, 600_000, 10_000)

    assert [each.name for each in removed] == ["0_0"]
    assert {each.name for each in tmp_path.iterdir()} == {"0_1", "0_2", "0_3", "checkpoint"}
    in_use.close()


def test_values_are_loaded_as_they_are_put(tmp_path: Path) -> None:
    one, many = DiskBackend(tmp_path / "one"), DiskBackend(tmp_path / "many")
    keys = [b"", b"\x00", b"\x00a", b"a", b"b", b"long" * 200, b"\xff" * 499, b"\xff" * 498]
    for entries in (
        {key: b"v" + key[:3] for key in keys[3:5]},
        dict.fromkeys(keys[:5], b"w"),
        dict.fromkeys(keys, b"x"),
    ):
        for key, value in entries.items():
            one.open("map").put(key, value)
            many.open("map").load(key, value)

        assert list(many.open("map").range(None, None)) == list(one.open("map").range(None, None))
    for backend in (one, many):
        backend.close()


def test_cleaning_up_removes_what_is_of_tasks_and_nothing_that_a_process_has(tmp_path: Path) -> None:
    for name in ("0_0", "1_3"):
        KeptState(tmp_path, name).close()
    held = KeptState(tmp_path, "0_0")
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)

    with pytest.raises(StreamsError, match=f"processes have the state in {held.directory}"):
        remove_all(tmp_path)
    held.close()
    removed = remove_all(tmp_path)

    assert removed == [tmp_path / "0_0"], "the other one was free at once"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert remove_all(tmp_path / "nothing") == []
