"""A process for each task, so that its state stays in one place from batch to batch.

A task of Spark begins it, and tells it by a Unix socket for whom it is to work: it connects to the driver, and from
then on the driver tells it what to do, batch after batch. It reads, computes and writes; no record passes through
Spark, and no task of Spark is started for a batch. It ends when the application is closed, with the executor that began
it, or when no driver has been connected for a minute; what it held is a cache.

The Unix socket: a frame with a pickled `Call`; back comes an empty frame once it is connected, or the pickled error.
The connection to the driver (`task_channel`): its name; then come pickled `Request`s, and for each it sends a pickled
`TaskAnswer`, or the error; before that `RestoreEvent`s. `End` closes its tasks and, unless another driver is connected,
ends it; then it closes the connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import logging
import os
import pickle
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.streams.errors import StreamsError
from barnabas.streams.spark.batch_stages import Request
from barnabas.streams.spark.task_channel import Address, Channel, ChannelError, End
from barnabas.streams.spark.task_manager import TaskHome
from barnabas.streams.spark.task_measures import RestoreEvent

if TYPE_CHECKING:
    from barnabas.spark.exactly_once.decision import TaskState

#: Seconds until a process ends that no driver is connected to. One that was lost comes back with its next batch.
IDLE = 60.0

#: Seconds that a process may take until it listens.
START = 60.0

#: Seconds for connecting to the driver.
CONNECT = 20.0

#: When the cycle collector runs, in new objects: a batch's records are thousands that live until it is written, and
#: with Python's 700 they were walked through again and again, for a sixth of the CPU of a count in windows.
COLLECT_AFTER = (50_000, 20, 100)

_SIZE = struct.Struct(">I")

#: What Spark puts on the path of its workers.
_SPARKS_OWN = re.compile(r"pyspark\.zip|py4j-.*-src\.zip")


class Call(NamedTuple):
    """For which application (pickled) a process is to work, under which name, and where the driver is."""

    application: bytes
    name: str
    driver: Address


# The workers' side.


def call(wanted: Call) -> str:
    """Have the process of this name connect to the driver; returns the name. Raises what kept it from that."""
    try:
        answer = _asked(wanted)
    except (EOFError, ConnectionError):
        answer = _asked(wanted)  # it was about to end; another one starts
    if answer:
        raise pickle.loads(answer)  # noqa: S301  of a process of ours
    return wanted.name


def _asked(wanted: Call) -> bytes:
    with _connected(wanted.name) as connection, connection.makefile("rwb") as stream:
        _send(stream, pickle.dumps(wanted))
        return _receive(stream)


@contextlib.contextmanager
def _connected(name: str) -> Iterator[socket.socket]:
    path = _folder() / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}-{os.getppid()}"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with connection:
        try:
            connection.connect(str(path))
        except OSError:
            _start(path)
            connection.connect(str(path))
        yield connection


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"barnabas-streams-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise StreamsError(f"{folder} belongs to another user: remove it, or set TMPDIR")
    return folder


def import_path(entries: Sequence[str]) -> list[str]:
    """Return where a process looks for modules, given where its worker does.

    Spark puts its own packages first, as zip files of sources, which each process compiles anew: 0.8 s of CPU. Where
    they are installed as well, these do.
    """
    kept = [entry for entry in entries if entry]
    others = [entry for entry in kept if not _SPARKS_OWN.fullmatch(Path(entry).name)]
    return others if all(PathFinder.find_spec(name, others) for name in ("pyspark", "py4j")) else kept


def _start(path: Path) -> None:
    """Start the process, unless another worker has; raises StreamsError when it does not come up."""
    deadline = time.monotonic() + START
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _answers(path):
            return
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(import_path(sys.path))}
        command = [sys.executable, "-m", "barnabas.streams.spark.task_processes", str(path), str(os.getppid())]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
        while not _answers(path):
            if process.poll() is not None or time.monotonic() > deadline:
                raise StreamsError(f"the process of a task did not start (exit code {process.poll()}): {command}")
            time.sleep(0.01)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True


# Frames.


def _send(stream: Any, data: bytes) -> None:
    stream.write(_SIZE.pack(len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: Any) -> bytes:
    (size,) = _SIZE.unpack(_read(stream, _SIZE.size))
    return _read(stream, size)


def _read(stream: Any, size: int) -> bytes:
    data: bytes = stream.read(size)
    if len(data) < size:
        raise EOFError("the other side has closed the connection")
    return data


# The process.


class TaskServer:
    """Serves the drivers that are connected, one attempt after the other: of two one is a ghost."""

    def __init__(self) -> None:
        self._application = b""
        self._home: TaskHome | None = None
        self._lock = threading.Lock()
        self._is_ended = False
        self._used = time.monotonic()
        self.drivers = 0

    def is_needed(self) -> bool:
        """Whether a driver is connected, or one that was lost may still come back."""
        if self.drivers:
            self._used = time.monotonic()
            return True
        return not self._is_ended and time.monotonic() - self._used < IDLE

    def close(self, decided: Mapping[str, TaskState] | None = None) -> None:
        """Close the tasks: others may have their directories. What is held of `decided` states is kept."""
        with self._lock:
            home, self._home = self._home, None
            if home is not None:
                home.close(decided or {})

    def take(self, connection: socket.socket) -> None:
        """Take a call; a connection that only looks whether there is someone is closed at once."""
        with connection, connection.makefile("rwb") as stream:
            try:
                wanted: Call = pickle.loads(_receive(stream))  # noqa: S301  of a worker of ours
            except EOFError:
                return
            try:
                channel = _introduced(wanted)
            except (OSError, EOFError) as error:
                place = f"{wanted.driver.host}:{wanted.driver.port}"
                told = StreamsError(
                    f"the process of {wanted.name} on {socket.gethostname()} cannot reach the driver at {place}: "
                    f"{error}; see spark.driver.host, and open the port (spark.barnabas.streams.port sets it)"
                )
                _send(stream, pickle.dumps(told))
                return
            self.drivers += 1
            self._is_ended = False
            threading.Thread(target=self._serve, args=(channel, wanted.application), daemon=True).start()
            _send(stream, b"")

    def _serve(self, channel: Channel, application: bytes) -> None:
        try:
            with contextlib.closing(channel), contextlib.suppress(OSError, EOFError, ChannelError):
                while True:
                    data = channel.receive()
                    try:
                        request = pickle.loads(data)  # noqa: S301  of our driver
                    except Exception as failed:  # noqa: BLE001  as packages that are not those of the driver
                        channel.send(_pickled(failed))
                        continue
                    if isinstance(request, End):
                        self._is_ended = True
                        self.close(request.decided)
                        return
                    with self._lock:
                        answer = self._answer(application, request, lambda event: channel.send(pickle.dumps(event)))
                    channel.send(answer)
        finally:
            self.drivers -= 1
            with self._lock:
                if not self.drivers and self._home is not None:
                    self._home.rest()

    def _answer(self, application: bytes, request: Request, tell: Callable[[RestoreEvent], None]) -> bytes:
        try:
            return pickle.dumps(self._home_of(application).run(request, tell))
        except Exception as failed:  # noqa: BLE001  the driver raises it
            return _pickled(failed)

    def _home_of(self, application: bytes) -> TaskHome:
        """Return the home of this version of the application; another one begins without a task."""
        if self._home is None or application != self._application:
            if self._home is not None:
                self._home.close()
            self._application, self._home = application, TaskHome(pickle.loads(application))  # noqa: S301  of ours
        return self._home


def _introduced(wanted: Call) -> Channel:
    """Return a connection to the driver, which knows the name."""
    connection = socket.create_connection((wanted.driver.host, wanted.driver.port), CONNECT)
    try:
        channel = Channel(connection, wanted.driver.secret, is_driver=False)
        channel.send(wanted.name.encode())
        channel.introduced()
    except BaseException:
        connection.close()
        raise
    return channel


def _pickled(error: Exception) -> bytes:
    text = "".join(traceback.format_exception(error))
    error.add_note(f"in the process of the task:\n{text}")
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301  our own
        return data
    except Exception:  # noqa: BLE001  a user's error may raise anything here
        return pickle.dumps(StreamsError(text))


def main(path: str, parent: int) -> None:
    """Serve until the parent is gone, or no driver was connected for a while."""
    _log_to_stderr()
    gc.set_threshold(*COLLECT_AFTER)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
        listener.listen(8)
        listener.settimeout(1.0)
        server = TaskServer()
        threading.Thread(target=_end_with, args=(parent, path), daemon=True).start()
        while server.is_needed():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                connection.settimeout(CONNECT)
                with contextlib.suppress(OSError, EOFError):
                    server.take(connection)
        Path(path).unlink(missing_ok=True)  # while it still listens: the next process has one of its own there
    server.close()


def _log_to_stderr() -> None:
    """Have what `barnabas.streams` tells, the progress of a restoration for one, come to the executor's log."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("barnabas.streams").setLevel(logging.INFO)


def _end_with(parent: int, path: str) -> None:
    while True:
        time.sleep(1.0)
        try:
            os.kill(parent, 0)
        except OSError:
            with contextlib.suppress(OSError):
                Path(path).unlink(missing_ok=True)
                Path(f"{path}.lock").unlink(missing_ok=True)
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
