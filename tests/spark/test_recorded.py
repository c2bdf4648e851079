"""Programs that record themselves (BARNABAS_ANATOMY) while Spark runs them: driver, tasks, hand-over, streams tasks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas import Producer
from barnabas.anatomy import events as e
from barnabas.anatomy import recording
from barnabas.anatomy.events import Event
from barnabas.anatomy.film import Film, subjects

NewTopicName = Callable[[int], str]
PROGRAMS = Path(__file__).parent / "programs"
RECORDS = 3000
SPARK = (
    "spark.master=local[2]", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1", "spark.sql.shuffle.partitions=2",
)  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(700)]


def fill(servers: str, topic: str, partitions: int, records: int = RECORDS) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(records):
            producer.send(topic, b"%06d" % number, key=b"k%d" % (number % 7), partition=number % partitions)


def run(program: str, directory: Path, *words: str) -> None:
    """Run a program of Spark's that records all of its processes in a directory."""
    environment = {**os.environ, "BARNABAS_ANATOMY": str(directory), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(PROGRAMS / program), *words, *SPARK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    said = [line for line in done.stderr.splitlines() if "Error" in line or "Exception" in line]
    assert done.returncode == 0, "\n".join(said)[-4000:]


def seen(directory: Path) -> list[tuple[float, Event]]:
    """What all processes recorded, in one film."""
    found = [recording.read(path) for path in sorted(directory.iterdir())]
    assert len({one.clock for one in found}) == 1
    return recording.merged(found).events


def of(told: list[tuple[float, Event]], kind: type[Event]) -> list[Event]:
    return [event for _, event in told if isinstance(event, kind)]


def test_a_query_is_seen_in_the_driver_in_its_tasks_and_in_the_hand_over(
    servers: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    source, target, recordings = new_topic(2), new_topic(1), tmp_path / "recordings"
    fill(servers, source, 2)
    run("copy_topic.py", recordings, servers, source, target, str(tmp_path / "checkpoint"))
    told = seen(recordings)

    planned = [event for event in of(told, e.MicroBatchPlanned) if event.topic == source]
    assert {(event.partition, event.start, event.end) for event in planned} >= {(n, 0, RECORDS // 2) for n in (0, 1)}
    tasks = {event.task for event in of(told, e.RangeBegun) if event.topic == source}
    decoded = [event for event in of(told, e.RowsDecoded) if event.topic == source]
    assert {event.task for event in decoded} == tasks
    assert sum(event.rows for event in decoded) == RECORDS
    assert len(list(recordings.iterdir())) > 2, "driver and tasks are processes of their own"

    for task in tasks:
        cases = [event.case for event in of(told, e.HandoverMoved) if event.task == task]
        assert cases.count("produced") == cases.count("taken") > 0
        assert cases[-1] == "closed"
        assert set(cases) <= {"produce_waits", "produced", "poll_waits", "taken", "woken", "closed"}
    every = {event.case for event in of(told, e.HandoverMoved)}
    assert {"produced", "taken", "closed"} <= every
    # At the beginning no batch is there: the task's thread waits for its consumer thread.
    assert "poll_waits" in every

    by_scene = subjects(told)
    for task in tasks:
        last = (film := Film(told, "spark", str(task))).step(len(film) - 1).picture
        assert [box.kind for box in last.lanes[0].boxes] == ["good"] * len(last.lanes[0].boxes)
        assert [stop is not None for stop in film.lesson()] == [True] * 5
    (query,) = [name for name in by_scene["query"] if source in str(planned[0].query) or name == planned[0].query]
    film = Film(told, "query", query)
    pictures = [film.step(number).picture for number in range(len(film))]
    done = [{box.label for box in picture.lanes[0].boxes if box.kind == "good"} for picture in pictures]
    assert {f"{source}-0", f"{source}-1"} in done, "both partitions were read to the end that the driver planned"
    assert max(len(picture.lanes[1].boxes) for picture in pictures) == len(tasks)


def test_a_streams_application_is_seen_task_by_task_also_when_it_comes_again(
    servers: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    source, target, recordings = new_topic(2), new_topic(1), tmp_path / "recordings"
    for turn in (1, 2):
        fill(servers, source, 2, 100)
        run("count_keys.py", recordings, servers, source, target, str(tmp_path / "checkpoint"), str(100 * turn))
    told = seen(recordings)

    application = f"count-{source}"
    steps = [event for event in of(told, e.StreamsTaskStep) if event.application == application]
    assert {event.task for event in steps} == {"0_0", "0_1"}
    for task in ("0_0", "0_1"):
        own = [event.step for event in steps if event.task == task]
        assert own.count("computed") >= 2
        assert own.index("read_decision") < own.index("compute") < own.index("computed")
    last: dict[tuple[str, int, str], int] = {}
    batch = dict.fromkeys(("0_0", "0_1"), -1)
    for event in (event for _, event in told if isinstance(event, e.StreamsTaskStep | e.StreamsTaskCounted)):
        if event.application != application:
            continue
        if isinstance(event, e.StreamsTaskStep):
            batch[event.task] = event.batch
        else:
            last[event.task, batch[event.task], f"{event.way} {event.topic}"] = event.records
    assert sum(records for (_, _, what), records in last.items() if what == f"consumed {source}") == 200
    assert sum(records for (_, _, what), records in last.items() if what == f"produced {target}") == 200
    restored = [event for event in of(told, e.StoreRestored) if event.application == application]
    assert {event.store for event in restored} <= {"counts"}

    film = Film(told, "streams", f"{application} 0_0")
    shown = film.step(len(film) - 1).picture
    batches = next(one for one in shown.lanes if one.title == "streams_batches").boxes
    assert any(box.facts.get("consumed") for box in batches)
