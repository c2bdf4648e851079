"""What opening a log needs of the disk, beside the loop: files that are made, and files that are read into the cache.

Opening itself stays on the loop (`LogLoader`), and finds everything in the system's cache then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.faults import insist, run_all
from barnabas.broker.log.checkpoint_files import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, write_partition_metadata
from barnabas.broker.log.log_file_utils import (
    INDEX_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    PRODUCER_SNAPSHOT_FILE_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_FILE_SUFFIX,
    file_name,
)

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import DirectoryEntry, FileSystem
    from barnabas.broker.storage_threads import Storage
    from barnabas.protocol.topic_partition import TopicPartition

#: So much at the end of the active segment is read when a log is opened, at most.
_TAIL = 1 << 20
_SMALL_FILES = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)
#: Of these the last one is read: those of the active segment, and the newest snapshot of the producers.
_LAST_OF = (LOG_FILE_SUFFIX, INDEX_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX, PRODUCER_SNAPSHOT_FILE_SUFFIX)


class LogToPrepare(NamedTuple):
    """A log that is about to be opened. `topic_id` is None for one that lies there already.

    With `make_segment` the empty files of the first segment are made, too.
    """

    name: TopicPartition
    directory: str
    topic_id: bytes | None
    make_segment: bool = True


class LogPreparation:
    """Prepares logs in the storage's threads; the same log once at a time.

    It has the logs whose files are being made, or were made and not opened yet. `on_unwanted` is called on the loop
    with the name and directory of one that was deleted while its files were made.
    """

    __slots__ = ("_filesystem", "_in_flight", "_made", "_read", "_storage", "_unwanted", "on_unwanted")

    def __init__(self, filesystem: FileSystem, storage: Storage) -> None:
        self._filesystem = filesystem
        self._storage = storage
        #: What is called, in order, when the disk has answered.
        self._in_flight: dict[TopicPartition, list[Callable[[], object]]] = {}
        self._made: dict[TopicPartition, bytes] = {}
        self._read: set[TopicPartition] = set()
        self._unwanted: set[TopicPartition] = set()
        self.on_unwanted: Callable[[TopicPartition, str], None] = lambda _name, _directory: None

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._made or name in self._in_flight

    def is_making(self, name: TopicPartition) -> bool:
        """Whether a log is being prepared."""
        return name in self._in_flight

    def has_read(self, name: TopicPartition) -> bool:
        """Whether what opening a log reads was read since `forget`."""
        return name in self._read

    def forget(self, name: TopicPartition) -> bytes | None:
        """Take note that a log is being opened; the topic id for which its files were made, None if they were not."""
        self._read.discard(name)
        return self._made.pop(name, None)

    def note_deleted(self, name: TopicPartition) -> bool:
        """Take note that a log is deleted; whether its files were made and it was never opened."""
        if name in self._in_flight:
            self._unwanted.add(name)
        return self.forget(name) is not None

    def begin(self, logs: Iterable[LogToPrepare], done: Callable[[], None]) -> None:
        """Prepare logs; `done` is called on the loop when all are, perhaps before this returns.

        Errors are left to who opens the log: it meets them again, and says what they are.
        """
        waiting = set()
        to_tell = [done]

        def finish(name: TopicPartition) -> None:
            waiting.discard(name)
            if not waiting and begun and to_tell:
                to_tell.pop()()

        begun = False
        for log in logs:
            if log.name in waiting or log.name in self._made:
                continue
            waiting.add(log.name)
            finished = partial(insist, partial(finish, log.name))
            others = self._in_flight.get(log.name)
            if others is not None:
                others.append(finished)
            else:
                self._submit(log, finished)
        begun = True
        if not waiting:
            done()

    def _submit(self, log: LogToPrepare, finished: Callable[[], None]) -> None:
        made: list[bool] = []

        def work() -> None:
            with suppress(OSError):
                made.append(_prepare(self._filesystem, log))

        # If one of these fails the others are called: the log is in flight no more, and who waits is told.
        steps: list[Callable[[], object]] = [
            partial(self._in_flight.pop, log.name),
            partial(self._finish, log, made),
            finished,
        ]
        self._storage.submit(work, partial(run_all, self._in_flight.setdefault(log.name, steps)))

    def _finish(self, log: LogToPrepare, made: list[bool]) -> None:
        was_made = any(made)
        unwanted = log.name in self._unwanted
        self._unwanted.discard(log.name)
        if log.topic_id is None:
            self._read.add(log.name)
        elif was_made and unwanted:
            self.on_unwanted(log.name, log.directory)
        elif was_made:
            self._made[log.name] = log.topic_id


def _prepare(filesystem: FileSystem, log: LogToPrepare) -> bool:
    """Make the files of a log, or read those that opening it reads; whether any were made. Raises `OSError`."""
    if log.topic_id is None or filesystem.is_directory(log.directory):
        _bring_in(filesystem, log.directory)
        return False
    filesystem.make_directory(log.directory)
    write_partition_metadata(filesystem, f"{log.directory}/{PARTITION_METADATA}", log.topic_id)
    if log.make_segment:
        for suffix in SEGMENT_SUFFIXES[:3]:
            filesystem.create(f"{log.directory}/{file_name(0, suffix)}")
    return True


def _bring_in(filesystem: FileSystem, directory: str) -> None:
    wanted: dict[str, DirectoryEntry] = {}
    for entry in filesystem.list_directory(directory):
        if entry.name in _SMALL_FILES:
            wanted[entry.name] = entry
        for suffix in _LAST_OF:
            if entry.name.endswith(suffix):
                wanted[suffix] = entry
    for entry in wanted.values():
        size = min(entry.size, _TAIL)
        filesystem.bring_in(f"{directory}/{entry.name}", size, entry.size - size)
