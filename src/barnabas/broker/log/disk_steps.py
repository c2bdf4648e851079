"""Work on a log in steps, between which others have their turn.

A step yields how many bytes it looks at next, or what is to be done beside the loop before it goes on: in a thread of
the storage, which keeps its errors to itself.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.log.cold_range import ColdRange

if TYPE_CHECKING:
    from barnabas.broker.log.file_records import BatchScan, FileRecords
    from barnabas.broker.log.filesystem import File, FileSystem

Result = TypeVar("Result")
Work = Callable[[], None]
Steps = Generator[int | Work, None, Result]


def done_at_once(steps: Steps[Result]) -> Result:
    """Do the work of the steps here, and return what they return."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if not isinstance(step, int):
            step()


def carried_out(action: Callable[[], None]) -> Generator[Work, None, None]:
    """Do something that waits for the disk. Raises `OSError`."""
    problems = [OSError(errno.EIO, "it was not carried out")]

    def work() -> None:
        try:
            action()
            problems.clear()
        except OSError as error:
            problems[:] = [error]

    yield work
    if problems:
        raise problems[0]


def brought_in(filesystem: FileSystem, ranges: Sequence[ColdRange]) -> Steps[None]:
    """Have parts of files in the system's cache."""
    if ranges:
        yield partial(_bring_in, filesystem, ranges)


def _bring_in(filesystem: FileSystem, ranges: Sequence[ColdRange]) -> None:
    for found in ranges:
        filesystem.bring_in(*found)


def next_piece(filesystem: FileSystem, scan: BatchScan) -> Steps[None]:
    """Have what a scan reads next in the cache, and say how much that is."""
    yield from brought_in(filesystem, cold_part(scan.records, scan.size, scan.position))
    yield scan.size


def cold_part(records: FileRecords, size: int, position: int) -> list[ColdRange]:
    """Return a part of a file, as far as it goes, if reading it would wait for the disk. Raises `OSError`."""
    size = min(size, records.size - position)
    if size <= 0 or records.file.is_cached(size, position):
        return []
    return [ColdRange(records.path, size, position)]


def cold_file(filesystem: FileSystem, path: str) -> list[ColdRange]:
    """Return a whole file if reading it would wait for the disk. Raises `OSError`."""
    if not filesystem.exists(path):
        return []
    file = filesystem.open(path)
    try:
        size = file.size()
        return [] if not size or file.is_cached(size, 0) else [ColdRange(path, size, 0)]
    finally:
        file.close()


def synced(filesystem: FileSystem, files: list[File], directories: list[str]) -> Steps[None]:
    """Have files, and names in directories, on the disk. Raises `OSError`."""
    sync = filesystem.prepare_sync(files, directories)
    yield sync.run
    if sync.error is not None:
        raise sync.error
    if not sync.done:
        raise OSError(errno.EIO, "the flush was not carried out")
