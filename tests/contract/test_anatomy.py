"""`barnabas anatomy`: recordings of programs and of the stage, as the page asks for them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer, anatomy
from barnabas.anatomy import events as e
from barnabas.anatomy import recording
from barnabas.anatomy.film import Film
from barnabas.anatomy.recorder import Recorder
from barnabas.anatomy.scenes import SCENES
from barnabas.console.anatomy_routes import MOST_LIVE
from barnabas.testing.simulator.world import World
from tests.contract.waiting import eventually
from tests.support.running_console import RunningConsole

pytest.importorskip("starlette")

BATCH: list[tuple[float, e.Event]] = [
    (1.0, e.BatchOpened("p", 1, "t", 0)),
    (1.5, e.BatchDrained("p", 1, "t", 0, 5, 3, 120, 4.9, 0, 7)),
    (2.0, e.BatchEnded(1, "succeeded", 40, "")),
]


#: The stage has a broker that is alone, and no Spark.
OF_ONE_BROKER = SCENES.keys() - {"cluster", "query", "spark", "streams"}


def recorded(path: Path, title: str = "a batch") -> Path:
    with path.open("w") as stream:
        recording.write(stream, recording.Recording(title, BATCH))
    return path


def test_a_recording_is_shown_step_by_step_and_nothing_else(tmp_path: Path) -> None:
    with RunningConsole(None, str(recorded(tmp_path / "one.jsonl"))) as console:
        console.log_in()
        assert console.get("/api/session")["hasCluster"] is False
        found = console.get("/api/anatomy")
        assert (found["title"], found["events"], found["subjects"]["producer"]) == ("a batch", 3, ["p"])

        first = console.get("/api/anatomy/producer?subject=p&step=0")
        assert (first["event"]["name"], first["steps"], first["at"]) == ("BatchOpened", 3, 1.0)
        assert next(lane["title"] for lane in first["picture"]["lanes"]) == "deque"
        assert console.get("/api/anatomy/producer?subject=p&at=1.7")["event"]["name"] == "BatchDrained"
        assert console.get("/api/anatomy/producer?subject=p")["event"]["name"] == "BatchEnded"

        for wrong in (
            "/api/anatomy/producer?subject=q",
            "/api/anatomy/nothing?subject=p",
            "/api/anatomy/producer?subject=p&step=x",
            "/api/anatomy/producer?subject=p&step=-1",
            "/api/anatomy/producer?subject=p&at=nan%20",
            "/api/anatomy?recording=../../etc/passwd",
        ):
            assert console.get(wrong, status=400)["error"] == "IllegalArgumentError", wrong
        assert console.get("/api/topics", status=404)["error"] == "NotFound"
        assert console.close() == 0


def test_a_directory_stands_for_its_recordings_and_one_that_grows_is_read_again(tmp_path: Path) -> None:
    recorded(tmp_path / "a.jsonl", "first")
    growing = recorded(tmp_path / "b.jsonl", "second")
    with RunningConsole(None, str(tmp_path)) as console:
        console.log_in()
        assert console.get("/api/anatomy")["recordings"] == ["a.jsonl", "b.jsonl", "*"]
        assert console.get("/api/anatomy?recording=b.jsonl")["events"] == 3
        with growing.open("a") as stream:
            stream.writelines(recording.lines([(3.0, e.BatchOpened("p", 2, "t", 0))]))
        assert console.get("/api/anatomy?recording=b.jsonl")["events"] == 4
        growing.write_text("no recording any more\n")
        assert "line 1" in console.get("/api/anatomy?recording=b.jsonl", status=400)["message"]


def live(console: RunningConsole, path: str) -> Iterator[tuple[str, Any]]:
    """The events of a live film, as they come."""
    connection = http.client.HTTPConnection(console.address, timeout=60)
    try:
        connection.request("GET", path, headers={"Cookie": console.cookie})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        kind = ""
        while line := response.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)
    finally:
        connection.close()


def test_a_recording_that_grows_is_followed_as_it_is_written(tmp_path: Path) -> None:
    path = recorded(tmp_path / "one.jsonl")
    with RunningConsole(None, str(path)) as console:
        console.log_in()
        os.utime(path, (1, 1))
        assert not console.get("/api/anatomy")["isGrowing"]
        os.utime(path)
        assert console.get("/api/anatomy")["isGrowing"]
        events = live(console, "/api/anatomy/producer/live?subject=p")
        assert next(events)[1]["events"] == 3
        kind, step = next(events)
        assert (kind, step["step"], step["event"]["name"]) == ("step", 2, "BatchEnded")
        with path.open("a") as stream:
            stream.writelines(recording.lines([(3.0, e.BatchOpened("p", 2, "t", 0)), (3.1, e.PollEntered("new"))]))
        kind, found = next(events)
        assert (kind, found["events"], found["subjects"]["consumer"]) == ("recording", 5, ["new"])
        kind, step = next(events)
        assert (kind, step["step"], step["steps"], step["at"]) == ("step", 3, 4, 3.0)
        # The same picture as one that asks for it.
        assert step == console.get("/api/anatomy/producer?subject=p")
        path.write_text("no recording any more\n")
        kind, trouble = next(events)
        assert (kind, trouble["error"]) == ("trouble", "IllegalArgumentError")
        assert "line 1" in trouble["message"]
        assert list(events) == []


def test_films_that_are_followed_are_counted_and_end_with_the_console(tmp_path: Path) -> None:
    path = recorded(tmp_path / "one.jsonl")
    with RunningConsole(None, str(path)) as console:
        console.log_in()
        wanted = "/api/anatomy/producer/live?subject=p"
        followed = [live(console, wanted) for _ in range(MOST_LIVE)]
        for events in followed:
            assert next(events)[0] == "recording"
        assert console.get(wanted, status=400)["error"] == "IllegalStateError"
        followed.pop().close()
        eventually(lambda: console.ask("GET", "/api/anatomy/producer?subject=p")[0] == 200)

        def follows_again() -> bool:
            try:
                return next(live(console, wanted))[0] == "recording"
            except AssertionError:
                return False

        eventually(follows_again)
        for wrong in ("/api/anatomy/nothing/live?subject=p", "/api/anatomy/producer/live?subject=q"):
            assert console.get(wrong, status=400)["error"] == "IllegalArgumentError", wrong
        console.process.terminate()
        assert [kind for kind, _ in followed[0]] == ["step"]
        assert console.process.wait(30) == 0


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["nowhere.jsonl"], "there is no recording"),
        (["."], "has no recordings"),
    ],
)
def test_what_is_no_recording_is_an_error_that_says_how_to_make_one(
    tmp_path: Path, names: list[str], said: str
) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "anatomy", *(str(tmp_path / name) for name in names)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 2
    assert said in run.stderr
    assert "BARNABAS_ANATOMY" in run.stderr


PROGRAM = """
import sys
from barnabas import Producer
with Producer(bootstrap_servers=sys.argv[1], client_id="mine") as producer:
    for number in range(100):
        producer.send("t", b"%d" % number)
"""


def test_a_program_records_itself_where_the_environment_says(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "there"
    with Broker() as broker:
        program = [sys.executable, "-c", PROGRAM, broker.bootstrap_servers]
        subprocess.run(program, env={"BARNABAS_ANATOMY": str(directory)}, check=True)

    [path] = directory.iterdir()
    told = [event for _, event in recording.read(path).events]
    assert sum(event.records for event in told if isinstance(event, e.BatchDrained)) == 100
    assert {event.client for event in told if isinstance(event, e.BatchOpened)} == {"mine"}
    assert [event.outcome for event in told if isinstance(event, e.BatchEnded)].count("succeeded") > 0


def test_a_program_goes_on_where_it_cannot_be_recorded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Broker() as broker:
        program = [sys.executable, "-c", PROGRAM, broker.bootstrap_servers]
        run = subprocess.run(
            program, env={"BARNABAS_ANATOMY": str(tmp_path / "file")}, capture_output=True, text=True, check=True
        )

    assert "nothing is recorded" in run.stderr


READER = """
import sys
from barnabas import Consumer
settings = {"client_id": "reader", "group_id": "g", "fetch_max_wait_ms": 200, "auto_offset_reset": "earliest"}
with Consumer("t", bootstrap_servers=sys.argv[1], **settings) as consumer:
    found = 0
    while found < 100:
        found += len(consumer.poll(1.0))
    consumer.poll(0.5)
"""
#: The way of a Fetch that waits for data, over two processes.
WAY = ["unsent", "left", "handled", "parked", "answered", "pending", "over"]


def test_a_request_is_seen_on_its_way_between_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_ANATOMY", str(tmp_path))
    with Broker() as broker:
        for program in (PROGRAM, READER):
            subprocess.run([sys.executable, "-c", program, broker.bootstrap_servers], check=True, timeout=120)
    found = [recording.read(path) for path in tmp_path.iterdir()]
    assert len(found) == 3
    assert len({one.clock for one in found}) == 1

    film = Film(recording.merged(found).events, "exchange", "reader")
    ways: dict[str, list[str]] = {}
    for number in range(len(film)):
        for lane in film.step(number).picture.lanes:
            for box in lane.boxes:
                way = ways.setdefault(f"{box.label} {box.key}", [])
                if way[-1:] != [lane.title.removeprefix("exchange_")]:
                    way.append(lane.title.removeprefix("exchange_"))

    assert WAY in [way for name, way in ways.items() if name.startswith("FETCH ")]
    assert all(way == sorted(set(way), key=WAY.index) for way in ways.values())


def test_the_stage_shows_every_scene(tmp_path: Path) -> None:
    with RunningConsole(None) as console:
        console.log_in()
        deadline = time.monotonic() + 120
        while True:
            found = console.get("/api/anatomy")
            if all(found["subjects"][scene] for scene in OF_ONE_BROKER) and "reader-2" in found["subjects"]["consumer"]:
                break
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
        assert found["subjects"]["group"] == ["shop"]
        assert {"orders", "payments"} == {*found["subjects"]["producer"]}

        def lanes(scene: str, subject: str) -> dict[str, list[dict[str, Any]]]:
            shown = console.get(f"/api/anatomy/{scene}?subject={subject}")["picture"]["lanes"]
            return {lane["title"]: lane["boxes"] for lane in reversed(shown)}

        eventually(lambda: "serializers" in lanes("producer", "orders"))
        producer = lanes("producer", "orders")
        assert [box["facts"]["serializer"] for box in producer["serializers"]] == ["StringSerializer", "bytes"]
        assert producer["partitioner"][0]["label"] == "murmur2(key) % partitions"
        # A slow task, one that ends early, and one of which the thread fails.
        eventually(lambda: all(box["facts"]["times"] for box in lanes("handover", "tasks")["handover_five"]), 60)
        assert [box["label"] for box in lanes("handover", "tasks")["handover_five"]] == [
            "poll waits", "produce waits", "woken", "failed", "closed",
        ]  # fmt: skip
        # One of five transactions is given up: where its records lie is told with the marker behind them.
        eventually(lambda: "log_aborted" in lanes("log", "totals-0"))
        for box in lanes("log", "totals-0")["log_aborted"]:
            first, _, last = box["label"].partition(" to ")
            assert int(first) <= int(last or first) == box["facts"]["marker"] - 1
        assert console.close() == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_three_brokers_and_their_controller_are_one_film(tmp_path: Path) -> None:
    recordings = tmp_path / "recordings"
    environment = {**os.environ, "BARNABAS_ANATOMY": str(recordings)}
    with running_cluster(tmp_path / "data", environment) as servers:
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", 2, 3)])
        with Producer(bootstrap_servers=servers, acks="all") as producer:
            for number in range(50):
                producer.send("orders", b"x", partition=number % 2)
        assert len(list(recordings.iterdir())) == 4
        with RunningConsole(None, str(recordings)) as console:
            console.log_in()
            assert "orders" in console.get("/api/anatomy?recording=*")["subjects"]["cluster"]

            def lanes() -> list[Any]:
                found = console.get("/api/anatomy/cluster?recording=*&subject=orders")
                return list(found["picture"]["lanes"])

            def replicas() -> list[Any]:
                return [box for one in lanes() if one["title"] == "replicas" for box in one["boxes"]]

            assert [one["title"] for one in lanes()] == ["controller", *["replicas"] * 3, "cluster_changes"]
            assert len(lanes()[0]["boxes"]) == 1
            eventually(lambda: sorted(box["kind"] for box in replicas()) == ["done"] * 4 + ["good"] * 2)
            eventually(lambda: {box["facts"]["high_watermark"] for box in replicas()} == {25})


@contextlib.contextmanager
def running_cluster(data: Path, environment: dict[str, str]) -> Iterator[str]:
    """`barnabas up --brokers 3`, and its addresses."""
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--brokers", "3", "--listen", "127.0.0.1:0"]
    command += ["--data", str(data), "--until-stdin-ends"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("listening on "))
        yield line.removeprefix("listening on ").partition(", data in")[0].replace(" ", "")
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_film_of_the_simulator_says_where_it_found_something(tmp_path: Path) -> None:
    path = tmp_path / "seed.jsonl"
    told: list[tuple[float, e.Event]] = [*BATCH, (2.5, e.Violation("two leaders")), (3.0, e.Violation("and more"))]
    with path.open("w") as stream:
        recording.write(stream, recording.Recording("a seed", told))
    with RunningConsole(None, str(path), str(recorded(tmp_path / "b.jsonl"))) as console:
        console.log_in()
        assert console.get("/api/anatomy?recording=seed.jsonl")["violation"] == {"at": 2.5, "what": "two leaders"}
        assert console.get("/api/anatomy?recording=b.jsonl")["violation"] is None


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_watching_a_seed_plays_it_and_shows_its_film() -> None:
    command = [sys.executable, "-m", "barnabas.testing.simulator", "--seed", "3", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = next(line for line in process.stdout if "/login?token=" in line).split()[2]
            with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(link, timeout=60) as page:
                assert b"<title>" in page.read()
        finally:
            process.terminate()


def test_what_the_simulator_finds_is_told_as_an_event() -> None:
    recorder = Recorder()
    anatomy.start(recorder)
    try:
        World(1).violate("two leaders")
    finally:
        anatomy.stop()
    assert [event for _, event in recorder.events()] == [e.Violation("two leaders")]
