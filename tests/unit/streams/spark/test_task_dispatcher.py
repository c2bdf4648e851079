"""The driver and the processes of its tasks: batches over connections that stay, and what happens when one is lost."""

from __future__ import annotations

import errno
import pickle
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once.commit_protocol import Task, TaskReport
from barnabas.spark.exactly_once.decision import TaskState
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark import task_dispatcher, task_processes
from barnabas.streams.spark.batch_protocol import TaskLostError
from barnabas.streams.spark.batch_stages import Request
from barnabas.streams.spark.task_channel import Address, Channel, ChannelError
from barnabas.streams.spark.task_dispatcher import TaskDispatcher
from barnabas.streams.spark.task_measures import RestoreEvent, TaskAnswer
from barnabas.streams.spark.task_processes import Call, TaskServer

LOCAL = ("127.0.0.1", "127.0.0.1", 0)
#: What a process makes of a request: a report, or an error.
Working = Callable[[Request], TaskReport]


class Home:
    """In place of a TaskHome."""

    def __init__(self, work: Working) -> None:
        self._work = work
        self.is_closed = False
        self.told: Mapping[str, TaskState] = {}

    def run(self, wanted: Request, tell: Callable[[RestoreEvent], None]) -> TaskAnswer:
        tell(RestoreEvent("end", "app-store-changelog", 0, "store", 0, 5, 5))
        return TaskAnswer(self._work(wanted), None)

    def rest(self) -> None:
        pass

    def close(self, decided: Mapping[str, TaskState] | None = None) -> None:
        self.is_closed = True
        self.told = decided or {}


class Died(BaseException):
    """What a process raises that is to die."""


class MortalServer(TaskServer):
    """A process whose connection is gone when it dies; `homes` are those that it has had."""

    def __init__(self, work: Working) -> None:
        super().__init__()
        self._work = work
        self.homes: list[Home] = []

    def _home_of(self, application: bytes) -> Any:
        if self._home is None:
            self.homes.append(Home(self._work))
            self._home = self.homes[-1]  # type: ignore[assignment]
        return self._home

    def _answer(self, application: bytes, request: bytes, tell: Any) -> bytes:
        try:
            return super()._answer(application, request, tell)
        except Died:
            raise EOFError from None


class Executors:
    """Places processes, which are threads here; `work` is what they do."""

    def __init__(self, work: Working) -> None:
        self.placed: list[list[str]] = []
        self.heard: list[tuple[str, Any]] = []
        self.servers: dict[str, MortalServer] = {}
        self._work = work

    def hear(self, task: str, said: Any) -> None:
        self.heard.append((task, said))

    def place(self, names: Sequence[str], address: Address) -> None:
        self.placed.append([*names])
        for name in names:
            server = self.servers.setdefault(name, MortalServer(self._work))
            ours, its = socket.socketpair()
            with ours, ours.makefile("rwb") as stream:
                task_processes._send(stream, pickle.dumps(Call(b"app", name, address)))
                server.take(its)
                assert task_processes._receive(stream) == b""


def request(task: str, batch: int = 0) -> Request:
    return Request(Task("q", "r", batch, int(task[-1])), PlannedTask(task, int(task[-1]), (), 0, ()), {})


class AtOnce:
    """Tasks that read nothing of each other."""

    stages = 1

    def __init__(self, *requests: Request) -> None:
        self._requests = requests

    def tasks(self, stage: int, reports: Sequence[TaskReport]) -> Sequence[Request]:
        return self._requests


def report(wanted: Request) -> TaskReport:
    return TaskReport(*wanted.spark)


@pytest.fixture
def started() -> Iterator[Callable[[Working], tuple[Executors, TaskDispatcher]]]:
    """Make executors whose processes do that, and what the driver knows of them."""
    found: list[TaskDispatcher] = []

    def start(work: Working) -> tuple[Executors, TaskDispatcher]:
        executors = Executors(work)
        found.append(TaskDispatcher("app", executors.place, LOCAL, most_attempts=3, hear=executors.hear))
        return executors, found[-1]

    yield start
    for each in found:
        each.close()


def test_processes_are_placed_once_and_compute_batch_after_batch(started: Any) -> None:
    executors, processes = started(report)

    batches = [[request(task, batch) for task in ("0_0", "0_1", "1_0")] for batch in range(3)]
    reports = [processes.run(AtOnce(*batch), lambda: True) for batch in batches]

    assert reports == [[report(each) for each in batch] for batch in batches]
    assert executors.placed == [["app/q/0_0", "app/q/0_1", "app/q/1_0"]]
    assert Counter(task for task, _ in executors.heard) == {"0_0": 3, "0_1": 3, "1_0": 3}


def test_a_process_that_is_lost_is_replaced_and_the_others_are_not_asked_again(started: Any) -> None:
    asked: list[str] = []

    def dying(wanted: Request) -> TaskReport:
        asked.append(wanted.planned.name)
        if asked.count("0_1") == 1 and wanted.planned.name == "0_1":
            raise Died
        return report(wanted)

    executors, processes = started(dying)

    found = processes.run(AtOnce(request("0_0"), request("0_1")), lambda: True)

    assert found == [report(request("0_0")), report(request("0_1"))]
    assert sorted(asked) == ["0_0", "0_1", "0_1"]
    assert executors.placed == [["app/q/0_0", "app/q/0_1"], ["app/q/0_1"]]


class OneAfterTheOther:
    """Three stages of two tasks, each of which is told of all before it by its time."""

    stages = 3

    def __init__(self) -> None:
        self.told: list[tuple[int, list[TaskReport]]] = []

    def tasks(self, stage: int, reports: Sequence[TaskReport]) -> Sequence[Request]:
        self.told.append((stage, [*reports]))
        return [told_of(f"{stage}_{number}", reports) for number in range(2)]


def told_of(task: str, reports: Sequence[TaskReport]) -> Request:
    planned = PlannedTask(task, int(task[-1]), (), sum(each.partition for each in reports), ())
    return request(task)._replace(planned=planned)


def test_the_tasks_of_a_stage_begin_when_all_before_have_reported_and_are_told_of_them(started: Any) -> None:
    begun: list[str] = []

    def numbered(wanted: Request) -> TaskReport:
        begun.append(wanted.planned.name)
        time.sleep(0.05 if wanted.planned.name.endswith("_0") else 0)
        return report(wanted)._replace(partition=10 ** len(wanted.planned.name[0]) + wanted.planned.now_ms)

    executors, processes = started(numbered)
    stages = OneAfterTheOther()

    found = processes.run(stages, lambda: True)

    assert [name[0] for name in begun] == ["0", "0", "1", "1", "2", "2"]
    assert stages.told == [(0, []), (1, found[:2]), (2, found[:4])]
    assert [each.partition for each in found] == [10, 10, 30, 30, 90, 90], "what was told is what was read"
    assert executors.placed == [[f"app/q/{stage}_{number}" for number in range(2)] for stage in range(3)]


@pytest.mark.parametrize("dies", [f"{stage}_{number}" for stage in range(3) for number in range(2)])
@pytest.mark.parametrize("has_worked", [False, True], ids=["before it works", "before it reports"])
def test_a_process_that_is_lost_in_a_stage_is_replaced_there_and_no_report_of_before_changes(
    started: Any, dies: str, has_worked: bool
) -> None:
    worked: list[tuple[str, int]] = []
    deaths = [dies]

    def dying(wanted: Request) -> TaskReport:
        is_to_die = wanted.planned.name in deaths
        if is_to_die and not has_worked:
            deaths.remove(wanted.planned.name)
            raise Died
        worked.append((wanted.planned.name, wanted.planned.now_ms))
        if is_to_die:
            deaths.remove(wanted.planned.name)
            raise Died
        # Each attempt reports something of its own.
        return report(wanted)._replace(partition=1000 * len(worked) + wanted.planned.now_ms)

    _, processes = started(dying)
    stages = OneAfterTheOther()

    found = processes.run(stages, lambda: True)

    assert [name for name, _ in worked].count(dies) == 1 + has_worked
    assert len(worked) == 6 + has_worked, "who has reported is not asked again"
    assert stages.told == [(0, []), (1, found[:2]), (2, found[:4])]
    of_first, of_second = (sum(each.partition for each in found[:count]) for count in (2, 4))
    assert {told for name, told in worked if name[0] == "1"} == {of_first}, "another attempt is told the same"
    assert {told for name, told in worked if name[0] == "2"} == {of_second}


def test_a_task_that_kills_its_processes_ends_the_batch(started: Any) -> None:
    def dying(wanted: Request) -> TaskReport:
        raise Died

    executors, processes = started(dying)

    with pytest.raises(TaskLostError, match="task 0_0 was lost 3 times"):
        processes.run(AtOnce(request("0_0")), lambda: True)

    assert len(executors.placed) == 3


def test_the_tasks_own_error_is_raised_here_and_who_still_works_is_not_waited_for(started: Any) -> None:
    go_on = threading.Event()

    def failing(wanted: Request) -> TaskReport:
        if wanted.planned.name == "0_0":
            raise ValueError("no number")
        go_on.wait(10)
        return report(wanted)

    _, processes = started(failing)

    with pytest.raises(ValueError, match="no number") as failed:
        processes.run(AtOnce(request("0_0"), request("0_1")), lambda: True)

    assert "in the process of the task" in failed.value.__notes__[0]
    assert processes.channel("app/q/0_0") is not None
    assert processes.channel("app/q/0_1") is None, "its answer would be taken for that of the next batch"
    go_on.set()


def test_a_batch_of_a_query_that_is_stopped_is_given_up(started: Any) -> None:
    go_on = threading.Event()
    _, processes = started(lambda wanted: go_on.wait(10))

    with pytest.raises(StreamsError, match="the query was stopped"):
        processes.run(AtOnce(request("0_0")), lambda: False)

    go_on.set()


def test_processes_are_let_in_again_when_there_were_no_descriptors(
    started: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _executors, processes = started(report)
    listener, failures = processes._listener, [OSError(errno.EMFILE, "Too many open files")]

    class Failing:
        """In place of a listener, which has no more descriptors once."""

        def accept(self) -> Any:
            if failures:
                raise failures.pop()
            return listener.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(listener, name)

    processes._listener = Failing()
    # The thread waits in a call that began before.
    assert processes.run(AtOnce(request("0_0")), lambda: True) == [report(request("0_0"))]
    assert processes.run(AtOnce(request("0_1"), request("0_2")), lambda: True)
    assert "could not be let in: [Errno 24] Too many open files" in caplog.text


def test_a_request_that_cannot_be_read_is_an_error_of_the_batch(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the executors have other versions of packages than the driver."""
    _executors, processes = started(report)
    wanted = request("0_0")
    monkeypatch.setattr(task_dispatcher, "pickle", SimpleNamespace(dumps=lambda _: b"no pickle", loads=pickle.loads))

    with pytest.raises(pickle.UnpicklingError) as failed:
        processes.run(AtOnce(wanted), lambda: True)

    assert "in the process of the task" in failed.value.__notes__[0]
    monkeypatch.undo()
    assert processes.run(AtOnce(wanted), lambda: True) == [report(wanted)]


def test_a_stranger_is_let_in_neither_by_the_driver_nor_by_a_process(started: Any) -> None:
    _, processes = started(report)
    address = processes._address

    with socket.create_connection((address.host, address.port)) as connection:
        stranger = Channel(connection, b"guessed", is_driver=False)
        stranger.send(b"app/q/0_0")
        with pytest.raises((EOFError, OSError)):
            stranger.receive()

    assert processes.channel("app/q/0_0") is None
    assert processes.run(AtOnce(request("0_0")), lambda: True) == [report(request("0_0"))]


def test_a_frame_that_was_changed_or_repeated_on_the_way_is_refused() -> None:
    ours, its = tcp_pair()
    ends: list[Channel] = []
    other = threading.Thread(target=lambda: ends.append(Channel(its, b"secret", is_driver=False)))
    other.start()
    driver = Channel(ours, b"secret", is_driver=True)
    other.join()
    (process,) = ends

    driver.send(b"first")
    assert process.receive() == b"first"
    driver._sent = 0  # its number is that of a frame that came already
    driver.send(b"first")
    with pytest.raises(ChannelError, match="does not know the secret"):
        process.receive()
    driver.close()
    process.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        its, _ = listener.accept()
    return ours, its


def test_a_process_that_cannot_reach_the_driver_says_where_it_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nowhere = Address("127.0.0.1", listener.getsockname()[1], b"secret")
    ours, its = socket.socketpair()

    with ours, ours.makefile("rwb") as stream:
        task_processes._send(stream, pickle.dumps(Call(b"app", "app/q/0_0", nowhere)))
        TaskServer().take(its)
        error = pickle.loads(task_processes._receive(stream))

    assert isinstance(error, StreamsError)
    assert f"cannot reach the driver at 127.0.0.1:{nowhere.port}" in str(error)
    assert "spark.barnabas.streams.port" in str(error)


def test_connections_end_when_the_application_does(started: Any) -> None:
    executors, processes = started(report)
    processes.run(AtOnce(request("0_0")), lambda: True)

    decided = {"0_0": TaskState("0_0", "what it has left", {"log": {"0": 4}})}
    processes.close(decided)

    server = executors.servers["app/q/0_0"]
    assert server.homes[-1].told == decided, "what it holds of that it may keep"
    assert server.homes[-1].is_closed, "its directory is free for the next start"
    assert ended(server), "it does not wait for another driver"


def test_a_process_that_another_driver_is_connected_to_goes_on(started: Any) -> None:
    first, one = started(report)
    one.run(AtOnce(request("0_0")), lambda: True)
    second, other = started(report)
    second.servers = first.servers
    other.run(AtOnce(request("0_0")), lambda: True)
    server = first.servers["app/q/0_0"]

    one.close()

    assert not ended(server)
    assert other.run(AtOnce(request("0_0", 1)), lambda: True) == [report(request("0_0", 1))]
    other.close()
    assert ended(server)


def test_a_process_whose_driver_is_lost_waits_for_it_a_while(monkeypatch: pytest.MonkeyPatch, started: Any) -> None:
    executors, processes = started(report)
    processes.run(AtOnce(request("0_0")), lambda: True)
    server = executors.servers["app/q/0_0"]

    processes.forget("app/q/0_0")

    assert not ended(server)
    monkeypatch.setattr(task_processes, "IDLE", 0.0)
    assert ended(server)


def ended(server: TaskServer) -> bool:
    """Whether a process has nothing to wait for, once its connections are closed."""
    deadline = time.monotonic() + 0.2
    while server.is_needed() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not server.is_needed()
