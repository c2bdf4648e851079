"""Directories of deleted logs, from the rename that takes one out of use to the deletion of its files (DeletedLogs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.log_file_utils import DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX, marked_directory_name
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.protocol.topic_partition import TopicPartition


#: Whose directories are renamed.
_WHY = {DELETE_DIR_SUFFIX: "of a deleted topic", STRAY_DIR_SUFFIX: "of a log that is not served"}


class DeletedLogs:
    """The deleted logs of one directory and those that belong to no replica, and the names that their directories get.

    `random_bytes(size)` makes those names unique. Where the disk refuses to rename one, it is tried again (`retry`);
    until then its partition may get no new log (`finish`).
    """

    __slots__ = ("_directory", "_filesystem", "_random_bytes", "_renamed", "_unrenamed")

    def __init__(self, filesystem: FileSystem, directory: str, random_bytes: Callable[[int], bytes]) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._random_bytes = random_bytes
        self._renamed: list[str] = []
        #: The directories of logs that are out of use, and the suffixes that they are to have.
        self._unrenamed: dict[TopicPartition, tuple[str, str]] = {}

    def __contains__(self, name: TopicPartition) -> bool:
        """Whether the disk has refused to rename a log of this name, so that there can be no other."""
        return name in self._unrenamed

    def found(self, directories: list[str]) -> None:
        """Line up what an earlier broker has renamed and not deleted."""
        self._renamed += directories

    def add(self, name: TopicPartition, directory: str) -> None:
        """Give the directory of a deleted log a name that says so. Raises `KafkaStorageError`."""
        self._rename(name, directory, DELETE_DIR_SUFFIX)

    def mark_stray(self, name: TopicPartition, directory: str) -> str:
        """Rename the directory of a log that is not served to one that stays; the new path. `KafkaStorageError`."""
        return self._rename(name, directory, STRAY_DIR_SUFFIX)

    def _rename(self, name: TopicPartition, directory: str, suffix: str) -> str:
        path = f"{self._directory}/{marked_directory_name(name, self._random_bytes(16).hex(), suffix)}"
        try:
            self._filesystem.rename(directory, path)
        except FileNotFoundError:
            # Its creation had failed.
            self._unrenamed.pop(name, None)
            return path
        except OSError as error:
            self._unrenamed[name] = directory, suffix
            raise KafkaStorageError(f"{directory} {_WHY[suffix]} cannot be renamed: {error}") from error
        self._unrenamed.pop(name, None)
        if suffix == DELETE_DIR_SUFFIX:
            self._renamed.append(path)
        return path

    def finish(self, name: TopicPartition) -> None:
        """Rename a log of this name now if that has failed before. Raises `KafkaStorageError`."""
        if name in self._unrenamed:
            self._rename(name, *self._unrenamed[name])

    def retry(self) -> None:
        """Try again to rename what the disk has refused."""
        for name, unrenamed in list(self._unrenamed.items()):
            try:
                self._rename(name, *unrenamed)
            except KafkaStorageError:
                continue

    def drain(self) -> list[str]:
        """Return the directories whose files are to be deleted, each once."""
        taken, self._renamed = self._renamed, []
        return taken
