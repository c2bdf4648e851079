"""Directories of deleted logs, from the rename that takes one out of use to the deletion of its files (DeletedLogs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.log_file_utils import DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX, marked_directory_name
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.protocol.topic_partition import TopicPartition


class DeletedLogs:
    """The deleted logs of one directory, and the names that their directories get.

    `random_bytes(size)` makes those names unique. Where the disk refuses to rename one, it is tried again (`retry`);
    until then its partition may get no new log (`finish`).
    """

    __slots__ = ("_directory", "_filesystem", "_random_bytes", "_renamed", "_unrenamed")

    def __init__(self, filesystem: FileSystem, directory: str, random_bytes: Callable[[int], bytes]) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._random_bytes = random_bytes
        self._renamed: list[str] = []
        self._unrenamed: dict[TopicPartition, str] = {}

    def __contains__(self, name: TopicPartition) -> bool:
        """Whether the disk has refused to rename a log of this name, so that there can be no other."""
        return name in self._unrenamed

    def found(self, directories: list[str]) -> None:
        """Line up what an earlier broker has renamed and not deleted."""
        self._renamed += directories

    def add(self, name: TopicPartition, directory: str) -> None:
        """Give the directory of a deleted log a name that says so. Raises `KafkaStorageError`."""
        path = self._path(name, DELETE_DIR_SUFFIX)
        try:
            self._filesystem.rename(directory, path)
        except FileNotFoundError:
            # Its creation had failed.
            self._unrenamed.pop(name, None)
            return
        except OSError as error:
            self._unrenamed[name] = directory
            raise KafkaStorageError(f"{directory} of a deleted topic cannot be renamed: {error}") from error
        self._unrenamed.pop(name, None)
        self._renamed.append(path)

    def finish(self, name: TopicPartition) -> None:
        """Rename a log of this name now if that has failed before. Raises `KafkaStorageError`."""
        if name in self._unrenamed:
            self.add(name, self._unrenamed[name])

    def retry(self) -> None:
        """Try again to rename what the disk has refused."""
        for name, directory in list(self._unrenamed.items()):
            try:
                self.add(name, directory)
            except KafkaStorageError:
                continue

    def drain(self) -> list[str]:
        """Return the directories whose files are to be deleted, each once."""
        taken, self._renamed = self._renamed, []
        return taken

    def mark_stray(self, name: TopicPartition, directory: str) -> str:
        """Rename the directory of a log that is not served to one that stays; the new path. `KafkaStorageError`."""
        path = self._path(name, STRAY_DIR_SUFFIX)
        try:
            self._filesystem.rename(directory, path)
        except OSError as error:
            raise KafkaStorageError(f"{directory} cannot be renamed: {error}") from error
        return path

    def _path(self, name: TopicPartition, suffix: str) -> str:
        return f"{self._directory}/{marked_directory_name(name, self._random_bytes(16).hex(), suffix)}"
