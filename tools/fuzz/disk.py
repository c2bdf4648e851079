"""Data directories as dicts of files, put on a disk in memory."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from barnabas.broker.log.memory_filesystem import MemoryFileSystem


def files_of(filesystem: MemoryFileSystem, directory: str) -> dict[str, bytes]:
    """Every file below a directory."""
    found = {}
    for entry in filesystem.list_directory(directory):
        path = f"{directory}/{entry.name}"
        if entry.is_directory:
            found |= files_of(filesystem, path)
        else:
            found[path] = filesystem.read(path)
    return found


def disk_with(files: Mapping[str, bytes]) -> MemoryFileSystem:
    """Return a disk that holds these files."""
    filesystem = MemoryFileSystem(Random(1))
    for path, data in files.items():
        filesystem.make_directory(path.rpartition("/")[0])
        filesystem.replace(path, data, sync=True)
    return filesystem
