"""Files with secrets that every user of this machine may read: told when they are found, and again after a mend."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.config.config_def import definitions


class SecretFile(NamedTuple):
    """A file, what of it is secret, and whose it is, such as `listener SSL`."""

    path: str
    what: str
    whose: str


class ReadableSecrets:
    """Remembers which files were told, so that each is told once for as long as it stays open to others."""

    def __init__(self) -> None:
        self._told: set[SecretFile] = set()

    def look(self, files: Iterable[SecretFile]) -> list[str]:
        """Return a line for each file that others may read, and could not read, or was not there, at the last look."""
        found = {file for file in files if readable_by_others(file.path)}
        new, self._told = found - self._told, found
        return [
            f"{one.whose}: every user of this machine may read {one.path}, which has {one.what}; `chmod o-r` ends that"
            for one in sorted(new)
        ]


def has_secrets(names: Iterable[str]) -> bool:
    """Whether settings of a broker are among these that are passwords or keys, also of single listeners."""
    endings = tuple(f".{key.name}" for key in definitions("broker").keys.values() if key.is_secret)
    return any(f".{name}".endswith(endings) for name in names)


def readable_by_others(path: str) -> bool:
    """Whether a file's mode and those of its folders let any user of this machine read it; False without a file."""
    try:
        real = os.path.realpath(path)
        return bool(os.stat(real).st_mode & stat.S_IROTH) and all(
            os.stat(folder).st_mode & stat.S_IXOTH for folder in _folders_of(real)
        )
    except OSError:
        return False


def _folders_of(path: str) -> list[str]:
    found: list[str] = []
    while (folder := os.path.dirname(path)) != path:
        found.append(folder)
        path = folder
    return found
