"""A process for each task, so that its state stays in one place whichever Python worker Spark takes for a batch.

Spark gives a task to any idle worker, and a worker that has not run the last batch would have to restore the state from
its changelogs. So workers only tell the task's process what to do, through a Unix socket, and it reads, computes and
writes: no record passes through Spark. It ends with the Spark that began it, or when it has had nothing to do for ten
minutes; what it held is a cache.

A connection: a frame with the pickled application, a frame with the pickled `Request`; back comes a frame with the
pickled `TaskReport`, or the error.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark.task_manager import Request, TaskHome

#: Seconds until a process ends that is asked for nothing.
IDLE = 600.0

#: Seconds that a process may take until it listens.
START = 60.0

_SIZE = struct.Struct(">I")


# The workers' side.


def run(application: bytes, name: str, request: Request) -> TaskReport:
    """Have the task's process do its part of a batch; raises what it raised."""
    with _connected(name) as connection, connection.makefile("rwb") as stream:
        _send(stream, application)
        _send(stream, pickle.dumps(request))
        answer = pickle.loads(_receive(stream))  # noqa: S301  of a process of ours
    if isinstance(answer, TaskReport):
        return answer
    raise answer


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


def _start(path: Path) -> None:
    """Start the process, unless another worker has; raises StreamsError when it does not come up."""
    deadline = time.monotonic() + START
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _answers(path):
            return
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
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
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError("the other side has closed the connection")
    (size,) = _SIZE.unpack(head)
    data: bytes = stream.read(size)
    if len(data) < size:
        raise EOFError("the other side has closed the connection")
    return data


# The process.


class TaskServer:
    """Serves the attempts of one task, one after the other."""

    def __init__(self) -> None:
        self._application = b""
        self._home: TaskHome | None = None

    def serve(self, connection: socket.socket) -> None:
        """Answer one connection; one that only looks whether there is someone is closed at once."""
        with connection, connection.makefile("rwb") as stream:
            try:
                application, request = _receive(stream), _receive(stream)
            except EOFError:
                return
            try:
                report = self._home_of(application).run(pickle.loads(request))  # noqa: S301  of a worker of ours
                answer = pickle.dumps(report)
            except Exception as failed:  # noqa: BLE001  the worker raises it
                answer = _pickled(failed)
            _send(stream, answer)

    def _home_of(self, application: bytes) -> TaskHome:
        """Return the home of this version of the application; another one begins without a task."""
        if self._home is None or application != self._application:
            if self._home is not None:
                self._home.close()
            self._application, self._home = application, TaskHome(pickle.loads(application))  # noqa: S301  of ours
        return self._home


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
    """Serve until the parent is gone or nothing was asked for a while."""
    _log_to_stderr()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
        listener.listen(8)
        listener.settimeout(1.0)
        server, used = TaskServer(), time.monotonic()
        threading.Thread(target=_end_with, args=(parent, path), daemon=True).start()
        while time.monotonic() - used < IDLE:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(None)
            with contextlib.suppress(OSError, EOFError):
                server.serve(connection)
            used = time.monotonic()
        Path(path).unlink(missing_ok=True)


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
