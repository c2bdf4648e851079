"""What a machine keeps of a task on its disk: the state after a decided batch, and up to where it has the changelogs.

`state.dir/APPLICATION/TASK` is the directory, as Kafka's `StateDirectory` has it, and one process at a time has it, by
a lock. Another process of the same machine (another executor, one that hangs) takes `TASK.1`, `TASK.2`, ..., each a
copy of its own. See `state_protocol` for when the state is kept, and what it is good for later.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from barnabas.streams.errors import ProcessorStateError, StreamsError
from barnabas.streams.state.disk import DiskBackend

LOGGER = logging.getLogger("barnabas.streams")

_LOCK = ".lock"
_TASK = re.compile(r"\d+_\d+(\.\d+)?")
_MOST = 64


class Kept(NamedTuple):
    """What lies beside the stores: by changelog topic its id and the next offset, by store its times; since when.

    `layouts` tells by store how its bytes lie on the disk: another topology may want them otherwise, or not at all.
    """

    topic_ids: dict[str, str]
    positions: dict[str, int]
    times: dict[str, dict[str, int]]
    at_ms: int
    layouts: dict[str, str] = {}  # noqa: RUF012  not changed; what an earlier version kept has none

    @classmethod
    def decode(cls, data: bytes) -> Kept:
        """Return what `encode` made."""
        return cls(*json.loads(data))

    def encode(self) -> bytes:
        """Return JSON in UTF-8."""
        return json.dumps(self).encode()


class KeptState:
    """The directory of a task, which this process has for itself until `close()`.

    Raises `ProcessorStateError` when the directory cannot be made or read.
    """

    def __init__(self, folder: Path, task: str) -> None:
        self._lock, self.directory = _locked(folder, task)
        self.backend = self._opened()

    def _opened(self) -> DiskBackend:
        try:
            return DiskBackend(self.directory)
        except ProcessorStateError as problem:
            LOGGER.warning("%s; it is made anew", problem)
            self._remove_files()
            return DiskBackend(self.directory)

    def back(self) -> Kept | None:
        """Forget what was not kept, and return what was; None for nothing. Stores must be opened again."""
        self.backend.abort()
        found = self.backend.metadata()
        return None if found is None else Kept.decode(found)

    def keep(self, kept: Kept) -> None:
        """Keep the stores as they are. Raises `ProcessorStateError` when the disk is full."""
        self.backend.commit(kept.encode())

    def clear(self) -> None:
        """Forget everything. Stores must be opened again."""
        self.backend.close()
        self._remove_files()
        self.backend = DiskBackend(self.directory)

    def _remove_files(self) -> None:
        for file in self.directory.glob("*.mdb"):
            file.unlink()

    def close(self) -> None:
        """Let another process have the directory."""
        self.backend.close()
        self._lock.close()


def _locked(folder: Path, task: str) -> tuple[IO[str], Path]:
    for number in range(_MOST):
        directory = folder / (f"{task}.{number}" if number else task)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = (directory / _LOCK).open("w")
        except OSError as problem:
            raise ProcessorStateError(
                f"the state of task {task} cannot be kept in {directory}: {problem}; set state.dir to a folder on the "
                "executors' own disks"
            ) from problem
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        if _is_same_file(lock, directory / _LOCK):
            return lock, directory
        lock.close()
    raise ProcessorStateError(f"{_MOST} processes hold directories of task {task} in {folder}: do they hang?")


def _is_same_file(lock: IO[str], path: Path) -> bool:
    """Whether the locked file is still the one of that name: who cleans up may have removed it in between."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except OSError:
        return False


def clean(folder: Path, ends: Mapping[str, Mapping[str, int]], delay_ms: int, acceptable_lag: int) -> list[Path]:
    """Remove directories of tasks that went elsewhere, and return them.

    Those are what no process has, of which nothing was kept for `delay_ms`, and which lag by more than `acceptable_lag`
    offsets behind `ends`: by task, the last offset of each changelog topic.
    """
    removed = []
    for directory in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not _TASK.fullmatch(directory.name) or not _is_old(directory, delay_ms):
            continue
        with (directory / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if _lag(directory, ends.get(directory.name.partition(".")[0], {})) > acceptable_lag:
                shutil.rmtree(directory, ignore_errors=True)
                removed.append(directory)
    return removed


def remove_all(folder: Path) -> list[Path]:
    """Remove the directories of all tasks, and return them. Raises `StreamsError` when a process has one of them."""
    removed, held = [], []
    for directory in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not _TASK.fullmatch(directory.name):
            continue
        with (directory / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(directory)
                continue
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory)
    if held:
        raise StreamsError(f"processes have the state in {', '.join(map(str, held))}: close the application that runs")
    return removed


def _is_old(directory: Path, delay_ms: int) -> bool:
    try:
        changed = (directory / "data.mdb").stat().st_mtime
    except OSError:
        return False
    return time.time() - changed > delay_ms / 1000


def _lag(directory: Path, ends: Mapping[str, int]) -> int:
    backend: Any = None
    try:
        backend = DiskBackend(directory)
        found = backend.metadata()
    except ProcessorStateError:
        return 0
    finally:
        if backend is not None:
            backend.close()
    positions = {} if found is None else Kept.decode(found).positions
    return sum(max(0, end + 1 - positions.get(topic, 0)) for topic, end in ends.items())
