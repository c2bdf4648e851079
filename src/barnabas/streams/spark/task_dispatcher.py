"""The driver's connections to the processes of its tasks: where they are, what they are to do, what came of it.

Spark places a process when there is none: a job of one small task for each, which ends once the process has connected
to the driver. From then on a batch costs no job.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.spark.exactly_once.commit_protocol import TaskReport, take_steps
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark import batch_protocol as protocol
from barnabas.streams.spark.batch_protocol import Outcome
from barnabas.streams.spark.task_channel import Address, Channel, ChannelError, End
from barnabas.streams.spark.task_measures import RestoreEvent, TaskAnswer, TaskMeasures

if TYPE_CHECKING:
    from pyspark import SparkContext

    from barnabas.spark.exactly_once.decision import TaskState
    from barnabas.streams.spark.batch_stages import Request

LOGGER = logging.getLogger("barnabas.streams")

#: Seconds from the end of the job that places a process until it has introduced itself.
_INTRODUCED = 60.0

#: Seconds that processes may take to close their tasks when the application is closed.
_ENDED = 10.0

#: Seconds after which a batch that waits looks whether it is still wanted.
_LOOK = 0.2


#: Places processes: by name of a process, from the address to which it is to connect.
Placing = Callable[[Sequence[str], Address], None]


class Stages(Protocol):
    """The tasks of a batch: `StagedBatch`, for one."""

    stages: int

    def tasks(self, stage: int, reports: Sequence[TaskReport]) -> Sequence[Request]:
        """Return those of a stage, given the reports of all stages before."""


class TaskDispatcher:
    """The processes of an application, by task. One batch after the other; `close()` may come from another thread.

    `place` has Spark start processes, `bind` is the address to listen on and the one that executors know. `hear` is
    told what a task says beside its reports: `TaskMeasures` of what counts, and `RestoreEvent`s.
    """

    def __init__(
        self, application: str, place: Placing, bind: tuple[str, str, int], most_attempts: int = 4,
        hear: Callable[[str, TaskMeasures | RestoreEvent], None] = lambda task, said: None,
    ) -> None:  # fmt: skip
        self._application = application
        self._place = place
        self._most_attempts = most_attempts
        self.hear = hear
        host, known_as, port = bind
        self._listener = socket.create_server((host, port), backlog=128)
        self._address = Address(known_as, self._listener.getsockname()[1], os.urandom(32))
        self._channels: dict[str, Channel] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        threading.Thread(target=self._accept, name=f"{application}-tasks", daemon=True).start()

    def run(self, stages: Stages, is_wanted: Callable[[], bool]) -> list[TaskReport]:
        """Have tasks compute their part of a batch, and return their reports; raises what one of them raised.

        Raises StreamsError when the batch is not wanted any more, TaskLostError when processes die again and again.
        """
        batch = _Batch(self, stages, is_wanted)
        try:
            steps = protocol.run_stages(stages.stages, self._most_attempts)
            return list(take_steps(steps, batch))
        finally:
            for task in batch.unanswered():
                self.forget(self.name_of(batch.requests[task]))

    def name_of(self, request: Request) -> str:
        """Return the name of the process for a task of a query."""
        return f"{self._application}/{request.spark.query}/{request.planned.name}"

    def ensure(self, names: Sequence[str]) -> None:
        """Have a process for each name; raises StreamsError when one does not connect."""
        with self._changed:
            if self._is_closed:
                raise StreamsError("the application was closed while its tasks computed a batch")
            missing = [name for name in names if name not in self._channels]
        if not missing:
            return
        self._place(missing, self._address)
        with self._changed:
            if not self._changed.wait_for(lambda: all(name in self._channels for name in missing), _INTRODUCED):
                raise StreamsError(
                    f"processes of tasks did not connect to the driver at {self._address.host}:{self._address.port} "
                    f"within {_INTRODUCED:.0f} s: {[name for name in missing if name not in self._channels]}"
                )

    def channel(self, name: str) -> Channel | None:
        """Return the connection to a process, None when there is none any more."""
        with self._changed:
            return self._channels.get(name)

    def forget(self, name: str) -> None:
        """Close the connection to a process: it is lost, or busy with what is not wanted any more."""
        with self._changed:
            channel = self._channels.pop(name, None)
        if channel is not None:
            channel.close()

    def close(self, decided: Mapping[str, TaskState] | None = None) -> None:
        """End all processes, and wait a while until they have closed their tasks: the next start opens them again.

        `decided` is what this driver knows of the tasks' states: they keep what they hold of them.
        """
        end = pickle.dumps(End(decided or {}))
        with self._changed:
            self._is_closed = True
            channels, self._channels = [*self._channels.values()], {}
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # the thread that waits on it ends
        self._listener.close()
        for channel in channels:
            with contextlib.suppress(OSError):
                channel.send(end)
        _await_closed(channels, time.monotonic() + _ENDED)
        for channel in channels:
            channel.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._introduce, args=(connection,), daemon=True).start()
            except (OSError, RuntimeError) as error:
                if self._is_closed:
                    return
                # No more descriptors or threads: a process that is not let in is placed again.
                LOGGER.warning("%s: a process of a task could not be let in: %s", self._application, error)
                time.sleep(_LOOK)

    def _introduce(self, connection: socket.socket) -> None:
        try:
            channel = Channel(connection, self._address.secret, is_driver=True)
            name = channel.receive().decode()
            channel.introduced()
        except (OSError, EOFError, ChannelError) as error:
            LOGGER.warning("%s: a connection was refused: %s", self._application, error)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
            return
        with self._changed:
            before = self._channels.pop(name, None)
            if not self._is_closed:
                self._channels[name] = channel
            self._changed.notify_all()
        for each in (before, channel if self._is_closed else None):
            if each is not None:
                each.close()


class _Batch:
    """Takes the steps of one batch."""

    def __init__(self, processes: TaskDispatcher, stages: Stages, is_wanted: Callable[[], bool]) -> None:
        self.requests: dict[str, Request] = {}
        self._stages = stages
        self._processes = processes
        self._is_wanted = is_wanted
        self._working: dict[Channel, tuple[str, int]] = {}
        self._outcomes: list[Outcome] = []

    def unanswered(self) -> list[str]:
        """Return the tasks of whose attempts nothing was heard."""
        return [task for task, _ in self._working.values()]

    def perform(self, step: Any) -> Outcome | list[str] | None:
        """See `StepPerformer`."""
        if isinstance(step, protocol.Begin):
            begun = {each.planned.name: each for each in self._stages.tasks(step.stage, step.reports)}
            self.requests |= begun
            return [*begun]
        if isinstance(step, protocol.Place):
            self._processes.ensure([self._processes.name_of(self.requests[task]) for task in step.tasks])
            return None
        if isinstance(step, protocol.Start):
            self._start(step)
            return None
        return self._next_outcome()

    def _start(self, step: protocol.Start) -> None:
        request = self.requests[step.task]
        name = self._processes.name_of(request)
        channel = self._processes.channel(name)
        try:
            if channel is None:
                raise EOFError("it has closed the connection again")
            channel.send(pickle.dumps(request))
        except (OSError, EOFError) as error:
            self._is_lost(step.task, step.attempt, error)
        else:
            self._working[channel] = step.task, step.attempt

    def _next_outcome(self) -> Outcome:
        while not self._outcomes:
            places = {channel.fileno(): channel for channel in self._working}
            if -1 in places:
                self._received(places[-1])  # closed here: it was replaced, or the application ends
            elif ready := wait([*places], _LOOK):
                self._received(places[next(each for each in ready if isinstance(each, int))])
            elif not self._is_wanted():
                raise StreamsError("the query was stopped while its tasks computed a batch")
        return self._outcomes.pop()

    def _received(self, channel: Channel) -> None:
        task, attempt = self._working[channel]
        try:
            answer = pickle.loads(channel.receive())  # noqa: S301  of a process of ours, which knows the secret
        except (OSError, EOFError, ValueError) as error:
            del self._working[channel]
            self._is_lost(task, attempt, error)
            return
        if isinstance(answer, RestoreEvent):
            self._processes.hear(task, answer)
            return
        del self._working[channel]
        if not isinstance(answer, TaskAnswer):
            raise answer
        self._outcomes.append(Outcome(task, attempt, answer.report))
        if answer.measures is not None:
            self._processes.hear(task, answer.measures)

    def _is_lost(self, task: str, attempt: int, error: Exception) -> None:
        name = self._processes.name_of(self.requests[task])
        LOGGER.warning("the process of task %s is lost (%s): another one takes over", task, error or "no reason known")
        self._processes.forget(name)
        self._outcomes.append(Outcome(task, attempt, None))


def _await_closed(channels: Sequence[Channel], deadline: float) -> None:
    """Wait until the other sides have closed these connections."""
    waiting = {channel.fileno(): channel for channel in channels if channel.fileno() != -1}
    while waiting and (left := deadline - time.monotonic()) > 0:
        for ready in wait([*waiting], left):
            assert isinstance(ready, int)
            try:
                waiting[ready].receive()  # an answer that comes too late
            except (OSError, EOFError, ChannelError):
                del waiting[ready]


def placed_by_spark(context: SparkContext, application: bytes) -> Placing:
    """Return what has Spark start processes of this pickled application in its executors."""

    def place(names: Sequence[str], address: Address) -> None:
        def start(mine: Any) -> list[str]:
            from barnabas.streams.spark import task_processes

            return [task_processes.call(task_processes.Call(application, name, address)) for name in mine]

        began = time.monotonic()
        context.parallelize(list(names), len(names)).mapPartitions(start).collect()
        LOGGER.info("placed the processes of %d tasks in %.1f s", len(names), time.monotonic() - began)

    return place


def bind_address(context: SparkContext) -> tuple[str, str, int]:
    """Return where the driver listens: as Spark's own does, on a port of `spark.barnabas.streams.port` (0: any)."""
    settings = context.getConf()
    known_as = settings.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
    host = settings.get("spark.driver.bindAddress", known_as) or known_as
    return host, known_as, int(settings.get("spark.barnabas.streams.port", "0") or 0)
